"""Tests of condensed outputs: without NCCL's repeated lines they give the same runs."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.nccl.parse_output import (
    MOST_WARNINGS,
    condensed,
    parse_text,
)
from report_samples import nccl_text

if TYPE_CHECKING:
    from collections.abc import Callable

NODES = ["gpu1", "gpu2"]
MOST = 1 << 24
# NCCL lines about a node and one of its connections, with all fabric data that a report uses.
LINES: list[Callable[[random.Random], str]] = [
    lambda at: (
        f"NCCL INFO Channel {at.randrange(32):02d}/0 : {at.randrange(16)}[0] -> 8[0] [send] via NET/IB/"
        f"{at.randrange(8)}{at.choice(['', '/GDRDMA', '(3)/GDRDMA'])}"
    ),
    lambda _at: "NCCL INFO Using network IB",
    lambda _at: "NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB [RO]; OOB eth0:10.0.0.1<0>",
    lambda at: f"NCCL INFO {at.choice([0, 16, 24])} coll channels, 16 nvls channels, 32 p2p channels",
    lambda at: f"NCCL INFO NVLS multicast support is {at.choice(['', 'not '])}available on dev 0",
    lambda at: f"NCCL INFO GPU Direct RDMA {at.choice(['Enabled', 'Disabled'])} for HCA 0 'mlx5_0'",
    lambda at: f"NCCL INFO NCCL version 2.2{at.randrange(9)}.5+cuda12.4",
    lambda at: f"NCCL INFO comm 0x{at.randrange(1 << 40):x} rank 0 nRanks 16 - Init COMPLETE",
    lambda at: f"NCCL INFO Trees [0] {at.randrange(16)}/-1/-1->0->-1",
    lambda _at: "NCCL WARN Call to connect returned Connection refused",
]


def noisy(text: str, seed: int, number: int = 300) -> str:
    """Return an output with NCCL lines between its own lines."""
    at = random.Random(seed)  # noqa: S311 - for samples
    lines = text.splitlines(keepends=True)
    for _ in range(number):
        host = f"gpu{at.randrange(1, 3)}:{at.randrange(90, 99)}:{at.randrange(100, 999)} [{at.randrange(8)}] "
        lines.insert(at.randrange(len(lines)), f"{host}{at.choice(LINES)(at)}\n")
    return "".join(lines)


def short(text: str, most: int = MOST) -> str:
    return condensed(text.splitlines(keepends=True), lambda line: line.startswith("# part"), most)


@pytest.mark.parametrize("seed", range(30))
def test_condensed_output_gives_the_same_runs(seed: int) -> None:
    text = noisy(nccl_text(NODES, 8, 365.0, program="all_reduce") * (seed % 3 + 1), seed)
    left = short(text)
    assert parse_text(left) == parse_text(text)
    assert len(left) < len(text)


def test_each_part_of_an_output_keeps_the_lines_of_its_own_run() -> None:
    part = f"# part\n{noisy(nccl_text(NODES, 8, 365.0, program='all_reduce'), 7)}"
    left = short(part * 3).split("# part\n")[1:]
    assert [parse_text(one) for one in left] == [parse_text(part)] * 3


def test_repeated_lines_are_dropped_and_the_end_is_unchanged() -> None:
    again = "gpu1:9:9 [0] NCCL INFO Channel 00/0 : 0[0] -> 8[0] [send] via NET/IB/0/GDRDMA\n"
    table = nccl_text(NODES, 8, 365.0, program="all_reduce")
    left = short(table + again * 100_000 + "srun: error: gpu1: task 0: Killed\n" + again * 3)
    assert len(left) < len(table) + 30 * len(again)
    assert left.endswith("srun: error: gpu1: task 0: Killed\n" + again * 3)
    assert left.startswith(table)


def test_warnings_are_kept_up_to_a_limit() -> None:
    lines = "".join(f"gpu1:9:9 [0] NCCL WARN timeout {number}\n" for number in range(2 * MOST_WARNINGS))
    assert "timeout 7\n" in short(lines)
    assert short(lines).count("NCCL WARN") < MOST_WARNINGS + 100


def test_output_above_the_size_limit_is_an_error() -> None:
    with pytest.raises(ValueError, match="has more than 1000 characters"):
        short("x" * 100 + "\n" * 2000, 1000)
