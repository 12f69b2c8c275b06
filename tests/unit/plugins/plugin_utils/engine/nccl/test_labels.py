"""Tests of line labels from launchers and log collectors, and of interleaved tables."""

from __future__ import annotations

import random
import re
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.nccl.parse_output import parse_text
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.validation.nccl_judge import PASS, Expected, judge
from report_samples import nccl_text

if TYPE_CHECKING:
    from collections.abc import Callable

WHOLE = (Path(__file__).parents[5] / "fixtures" / "nccl" / "all_reduce_2x8.txt").read_text()
KEPT = ("outcome", "ranks", "nodes", "hosts", "program", "rows", "avg_busbw", "out_of_bounds", "fabric", "warnings")
INFO = "gpu2:4108:4188 [3] NCCL INFO Channel 00/0 : 8[0] -> 0[0] [send] via NET/IB/3/GDRDMA"
LISTED = "gpu2:4108:4188 [3] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB [RO]; OOB eth0:10.0.0.2<0>"
WARN = "gpu2:4108:4188 [3] transport/net_ib.cc:1205 NCCL WARN NET/IB : mlx5_3:1 Got async event : port error"


def seconds(line: int) -> str:
    """Return a time that advances with the lines of the table."""
    return f"{22 + line // 3600:02}:{line // 60 % 60:02}:{line % 60:02}"


# The prefix that each program writes before a line, by line number and rank.
LABELS: dict[str, Callable[[int, int], str]] = {
    "srun --label": lambda _line, rank: f"{rank}: ",
    "srun --label, padded": lambda _line, rank: f"{rank:3}: ",
    "mpirun --tag-output": lambda _line, rank: f"[1,{rank}]<stdout>:",
    "mpirun --timestamp-output --tag-output": lambda line, rank: f"Fri Mar 13 {seconds(line)} 2026[1,{rank}]<stdout>:",
    "prterun, fullname": lambda _line, rank: f"[prterun-gpu1-100629@1,{rank}]<stdout>: ",
    "hydra -prepend-rank": lambda _line, rank: f"[{rank}] ",
    "hydra -prepend-pattern": lambda _line, rank: f"{rank}@gpu{rank // 8 + 1}: ",
    "pdsh": lambda _line, rank: f"gpu{rank // 8 + 1}: ",
    "clush": lambda _line, rank: f"gpu-a{rank // 8 + 1:02}.cluster.example: ",
    "kubectl logs --prefix": lambda _line, rank: f"[pod/nccl-launcher-x7k2q/worker-{rank}] ",
    "kubectl logs --timestamps": lambda line, _rank: f"2026-03-13T{seconds(line)}.{line * 9176123 % 10**9:09}Z ",
    "RFC 3339 without zeros": lambda line, _rank: f"2026-03-13T{seconds(line)}{'.5' if line % 3 else ''}Z ",
    "kubectl, both": lambda line, _rank: f"[pod/nccl/launcher] 2026-03-13T{seconds(line)}.123456789Z ",
    "CRI": lambda line, _rank: f"2026-03-13T{seconds(line)}.123456789+01:00 stdout F ",
    "docker compose": lambda _line, rank: f"worker-{rank}  | ",
    "journalctl": lambda line, _rank: f"Mar  3 {seconds(line)} gpu1 nccl-test[4711]: ",
    "journalctl, ISO": lambda line, _rank: f"2026-03-13T{seconds(line)}+0100 gpu1 slurm_script[4711]: ",
    "ts": lambda line, _rank: f"Mar 13 {seconds(line)} ",
    "ts -s": lambda line, _rank: f"{seconds(line)} ",
    "epoch": lambda line, _rank: f"{1773440762 + line} ",
    "epoch with fraction": lambda line, _rank: f"{1773440762 + line}.{line * 7 % 1000:03} ",
    "dmesg": lambda line, _rank: f"[{line * 1.7:12.6f}] ",
    "torchrun": lambda _line, rank: f"[default{rank}]:",
    "go test": lambda line, _rank: f"    nccl_test.go:{100 + line}: ",
    "python logging": lambda line, _rank: f"2026-03-13 {seconds(line)},{line % 1000:03} - runner - INFO - ",
    "parallel-ssh": lambda _line, rank: f"[{rank // 8 + 1}] 22:26:02 [SUCCESS] gpu{rank // 8 + 1} ",
    "ansible": lambda _line, rank: f"ok: [gpu{rank // 8 + 1}] => ",
    "cat -n": lambda line, _rank: f"{line:6}\t",
    "grep -n": lambda line, _rank: f"{line}:",
    "grep": lambda _line, _rank: "logs/all_reduce.out:",
    "mail": lambda _line, _rank: "> ",
    "srun in kubectl": lambda line, rank: f"2026-03-13T{seconds(line)}.123456789Z {rank:2}: ",
    "tag in ts": lambda line, rank: f"{seconds(line)} [1,{rank}]<stdout>:",
}


def whole() -> str:
    """Return an output of 16 ranks with NCCL lines of another rank in and before the table."""
    lines = WHOLE.split("\n")
    at = next(number for number, line in enumerate(lines) if re.match(r" +\d+ +\d+ +float", line)) + 1
    return "\n".join([*lines[: at - 1], LISTED, INFO, *lines[at - 1 : at], "", WARN, *lines[at:]])


def labelled(text: str, label: Callable[[int, int], str]) -> str:
    ranks = [8 if "gpu2:4108" in line else 0 for line in text.split("\n")]
    return "\n".join(
        label(number, rank) + line
        for number, (rank, line) in enumerate(zip(ranks, text.rstrip("\n").split("\n")), start=1)
    )


def kept(text: str) -> list[dict[str, Any]]:
    return [{key: run[key] for key in KEPT} for run in parse_text(text)["runs"]]


@pytest.mark.parametrize("label", LABELS.values(), ids=LABELS)
def test_labels_do_not_change_the_result(label: Callable[[int, int], str]) -> None:
    assert kept(labelled(whole(), label)) == kept(whole())
    (run,) = kept(whole())
    assert (run["outcome"], run["hosts"]) == ("ok", ["gpu1", "gpu2"])
    assert run["warnings"] == ["gpu2: NET/IB : mlx5_3:1 Got async event : port error"]
    assert run["fabric"]["rails"]["gpu2"]["listed"] == ["mlx5_0", "mlx5_1"]


ROW = re.compile(r"^( *\d+ +\d+ +float +\w+ +-?\d+)( +\S+ +\S+ +\S+ +\S+)( +\S+ +\S+ +\S+ +\S+)\s*$")
# Programs that label each write. No label begins with a digit, which would be read as part of the preceding value.
WRITES = (
    "hydra -prepend-rank",
    "mpirun --tag-output",
    "mpirun --timestamp-output --tag-output",
    "prterun, fullname",
    "pdsh",
    "torchrun",
)


@pytest.mark.parametrize(
    "between", ["", f"{{label}}{INFO}\n", f"\n{{label}}{INFO}\n", f"\n{{label}}\n{{label}}{WARN}\n"]
)
@pytest.mark.parametrize("name", WRITES)
def test_a_label_before_each_write_is_removed_within_rows(name: str, between: str) -> None:
    lines = []
    for number, line in enumerate(WHOLE.rstrip("\n").split("\n")):
        label, later, other = (LABELS[name](*at) for at in ((number, 0), (number + 1, 0), (number, 8)))
        parts = ROW.match(line)
        gap = between.format(label=other) + later
        lines.append(label + (gap.join(parts.groups()) if parts else line))
    (run,), (plain,) = kept("\n".join(lines)), kept(WHOLE)
    assert {key: run[key] for key in KEPT[:8]} == {key: plain[key] for key in KEPT[:8]}


def table(nodes: list[str], busbw: float = 365.0) -> list[str]:
    return nccl_text(nodes, 8, busbw, program="all_reduce").rstrip("\n").split("\n")


def passes(text: str, nodes: int) -> bool:
    asked = Expected(nodes=nodes, ranks=8 * nodes, floor=300.0)
    return judge(parse_text(text)["runs"], None, asked)["verdict"] == PASS


def shuffled(seed: int, *outputs: list[str]) -> str:
    """Return the interleaved lines of several outputs; the lines of each output keep their order."""
    chosen = random.Random(seed)  # noqa: S311 - a test
    left, lines = [list(output) for output in outputs], []
    while any(left):
        lines.append(chosen.choice([each for each in left if each]).pop(0))
    return "\n".join(lines)


@pytest.mark.parametrize("label", ["gpu{}: ", "[{}] ", "[1,{}]<stdout>:", "", "node{}-x | "])
@pytest.mark.parametrize("seed", range(12))
def test_mixed_tables_do_not_pass(seed: int, label: str) -> None:
    one, other = ([label.format(number) + line for line in table([f"gpu{number}"])] for number in (1, 2))
    assert passes("\n".join(one), 1)
    cut = random.Random(seed).randrange(3, len(other))  # noqa: S311 - a test
    for second in (other, other[:cut]):
        text = shuffled(seed, one, second)
        apart = text in {"\n".join(one + second), "\n".join(second + one)}
        assert apart or not passes(text, 1)
        assert not passes(text, 2)


def test_table_does_not_pass_if_its_other_copy_hangs() -> None:
    header = next(number for number, line in enumerate(table(["gpu2"])) if "float" in line)
    one, other = table(["gpu1"]), table(["gpu2"])[:header]
    text = "\n".join(f"gpu{n}: {line}" for pair in zip(one, other) for n, line in enumerate(pair, 1))
    text += "\n" + "\n".join(f"gpu1: {line}" for line in one[header:])
    (run,) = parse_text(text)["runs"]
    assert run["outcome"] == "contradictory"
    assert "a rank is listed twice" in run["contradictions"][0]


@pytest.mark.parametrize(
    "text", ["4394.3 244.35 458.15 0   2147483648 536870912 float sum -1 3.1 1.0 1.0 0", "x " * 300]
)
def test_end_of_another_row_is_not_a_label(text: str) -> None:
    cut = re.sub(r"(?m)^( *\d+ +\d+ +float)", rf"{text}\1", WHOLE, count=1)
    assert kept(cut)[0]["outcome"] != "ok"


def test_label_starting_with_a_digit_does_not_make_a_result_wrong() -> None:
    later, label = "22:00:15 [1,0]<stdout>:", "22:00:12 [1,0]<stdout>:"
    lines = [
        label + later.join(row.groups()) if (row := ROW.match(line)) else label + line for line in WHOLE.split("\n")
    ]
    (run,) = parse_text("\n".join(lines))["runs"]
    assert run["outcome"] == "truncated"


@pytest.mark.parametrize("name", ["pdsh", "srun --label", "clush"])
def test_hostname_directly_after_a_count_is_not_a_label(name: str) -> None:
    label = LABELS[name](1, 0)
    lines = [label + line for line in WHOLE.rstrip("\n").split("\n")]
    text = re.sub(r"(?m)      0$", "      0gpu1:1375:1375 [0] NCCL INFO done", "\n".join(lines), count=1)
    assert "0gpu1:1375" in text
    assert kept(text)[0]["rows"] == kept(WHOLE)[0]["rows"]


def test_label_of_many_numbers_is_matched_quickly() -> None:
    label = " ".join(f"{number:02}" for number in range(40)) + " run: "
    text = label + WHOLE.replace("\n", f"\n{label}") + "\n" + "9" * 20000
    began = time.process_time()
    assert kept(text)[0]["outcome"] == "ok"
    assert time.process_time() - began < 5
