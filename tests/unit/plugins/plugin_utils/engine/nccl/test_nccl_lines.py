"""Tests that the optimized line parser gives the same result as the simple one."""

from __future__ import annotations

import io
import random

import pytest
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.nccl.line_parser import INFORMATIVE, Parser
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.nccl.parse_output import (
    MAX_LINE,
    bounded_lines,
    parse_lines,
    parse_stream,
)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n",
        "a\n\nb",
        "a\x0b\x0c\u2028b\n",
        *("x" * length + end for length in range(MAX_LINE - 1, MAX_LINE + 2) for end in ("", "\n", "\ny\n")),
        "x" * (3 * MAX_LINE + 5) + "\n" + "y" * (2 * MAX_LINE) + "\n",
        "\n".join("z" * length for length in range(600)),
    ],
    ids=len,
)
def test_bounded_lines_match_readline(text: str) -> None:
    slow = io.StringIO(text, newline="\n")
    assert list(bounded_lines(io.StringIO(text, newline="\n"))) == list(iter(lambda: slow.readline(MAX_LINE), ""))


@pytest.mark.parametrize("said", ["", " x", " <stdout>", " \r", " \x1b[1m", " gpu1:1:2 [0] NCCL INFO x"])
@pytest.mark.parametrize(
    ("head", "expected"),
    [
        ("gpu1:12:13 [0] NCCL INFO", True),
        ("[2026-03-13 22:26:02] gpu1:12:13 [0] NCCL INFO", True),
        ("[1,12]<stdout>:gpu1:12:13 [0] NCCL INFO", True),
        ("[1,1]<stdout>:-1gpu1:12:13 [0] NCCL INFO", False),
        ("another label: gpu1:12:13 [0] NCCL INFO", False),
        ("1gpu:12:13 [0] NCCL INFO", False),
        ("gpu1:12 [0] NCCL INFO", False),
        ("] NCCL INFO gpu1:1:2 [0] NCCL INFO", False),
        ("8 2 float sum -1gpu1:12:13 [0] NCCL INFO", False),
        ("gpu1:12:13 [0] NCCL WARN", False),
    ],
)
def test_nccl_line_begins_with_host_process_and_level(head: str, said: str, *, expected: bool) -> None:
    parser = Parser()
    parser.feed("[1,0]<stdout>:# nThread 1 nGpus 1 minBytes 8 maxBytes 16 step: 2(factor)")
    alone = "\x1b" not in said and "\r" not in said and "<std" not in said
    assert parser.is_library(head + said) == (expected and alone)


HEADS = ["gpu1:12:13 [0] NCCL INFO ", "[1,12]<stdout>:gpu2:12:13 [0] NCCL INFO ", " 3: gpu1:1:2 [0] NCCL WARN ", ""]
SAID = [
    "Channel 00/0 : 0[0] -> 1[1] [send] via NET/IB/0/GDRDMA",
    "Channel 01/0 : 0[0] -> 1[1] [send] via NET/IB/1",
    "Channel 01/0 : 0[0] -> 1[1] [send] via COLLNET/IB/1",
    "Using network IB",
    "NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB [RO]; OOB eth0:10.0.0.1<0>",
    "24 coll channels, 16 nvls channels",
    "NVLS multicast support is not available on dev 0",
    "GPU Direct RDMA Disabled for HCA 0 'mlx5_0'",
    "NCCL version 2.22.9",
    "comm 0x1 rank 1 nranks 2 - Init COMPLETE",
    "opCount 1 [1,3]<stdout>: 8 2 float sum -1 3.1 1.0 1.0 0",
    "opCount 1\x1b[1m",
    "NV[1,3]<stdout>:LS Head 0",
    "NV\x1b[1mLS comm 0x1",
    "NVLS Head 0",
    "] NCCL INFO gpu3:1:2 [0] NCCL INFO via NET/Socket/0",
]
FRAME = [
    "# nThread 1 nGpus 1 minBytes 8 maxBytes 16 step: 2(factor) warmup iters: 1 iters: 20",
    "#  Rank  0 Group  0 Pid 1 on gpu1 device  0 [0000:19:00] NVIDIA H100",
    "#       size         count      type   redop    root" + "     time   algbw   busbw  #wrong" * 2,
    "           8             2     float     sum      -1",
    "    3.10    1.00    1.00      0    3.20    1.00    1.00      0",
    "          16             4     float     sum      -1    3.10    1.00   -1.00      0    3.20    1.00    nan      0",
    "# Out of bounds values : 0 OK",
    "# Avg bus bandwidth    : 1",
    "gpu1: Test CUDA failure common.cu:1",
    "z" * (MAX_LINE + 3),
]


@pytest.mark.parametrize("seed", range(25))
def test_stream_and_lines_give_the_same_result(seed: int) -> None:
    chosen = random.Random(seed)  # noqa: S311 - a test
    lines = []
    for line in FRAME * 3:
        noise = [chosen.choice(HEADS) + chosen.choice(SAID) for _ in range(chosen.randrange(40))]
        lines += [*noise, line] if chosen.random() < 0.9 else noise
    text = "\n".join(lines) + chosen.choice(["", "\n"])
    wanted = parse_lines(text.split("\n"))
    assert parse_stream(io.StringIO(text, newline="\n")) == wanted
    assert any("line " in said for run in wanted["runs"] for said in run["contradictions"])


@pytest.mark.parametrize("said", SAID)
def test_unique_nccl_line_is_parsed(said: str) -> None:
    for head in HEADS:
        known = [other + "opCount 1" for other in HEADS]
        text = "\n".join([*known, *FRAME[:-2], *known, head + said]) + "\n"
        assert parse_stream(io.StringIO(text, newline="\n")) == parse_lines(text.split("\n"))


def test_repeated_nccl_line_is_not_parsed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    read = []
    feed = Parser.feed

    def noted(parser: Parser, line: str) -> None:
        read.append(line)
        feed(parser, line)

    monkeypatch.setattr(Parser, "feed", noted)
    first = f"[1,0]<stdout>:{FRAME[0]}"
    lines = [HEADS[0] + SAID[0], HEADS[0] + SAID[9], HEADS[1] + SAID[9]] * 1000
    parse_stream(io.StringIO("\n".join([first, *lines]) + "\n"))
    assert read == [first, lines[0], lines[2]]


@pytest.mark.parametrize(("letter", "word"), INFORMATIVE)
def test_each_informative_word_contains_its_search_letter(letter: str, word: str) -> None:
    assert len(letter) == 1
    assert letter in word
