"""Tests of the lemon score: signals and points, and that no single signal reaches the limit."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.busbar.cluster.plugins.plugin_utils.nodes.dossier import (
    LIMIT,
    SIGNALS,
    lemon_score,
)

DAY = 86400


def out(day: float, reason: str, hours: float = 1, node: str = "gpu1") -> dict[str, Any]:
    """Return a time out of service that began on this day."""
    begin = int(day * DAY)
    return {"node": node, "from": begin, "until": begin + int(hours * 3600), "state": "DRAIN", "reason": reason}


def job(count: int, failed: str = "gpu1", state: str = "NODE_FAIL", day: float = 2) -> dict[str, Any]:
    return {"count": count, "failed_nodes": [failed], "state": state, "end": int(day * DAY)}


@pytest.mark.parametrize(
    ("events", "jobs", "blames", "points", "counts"),
    [
        ([], [], [], 0, (0, 0, 0, 0, 0)),
        ([out(2, "new memory")], [], [], 1, (0, 1, 0, 0, 0)),
        ([out(2, "busbar health: GPU 0: Xid 79 (x)")], [], [], 2, (1, 1, 0, 0, 0)),
        ([], [job(1)], [], 2, (0, 0, 0, 0, 1)),
        ([], [job(8), job(8)], [], 2, (0, 0, 0, 2, 0)),
        # Failures of another node, of the job itself, and from too long ago do not count.
        ([], [job(8, "gpu2"), job(1, state="FAILED"), job(1, day=0)], [0], 0, (0, 0, 0, 0, 0)),
        ([out(0.5, "long past"), out(2, "of another", node="gpu2")], [], [], 0, (0, 0, 0, 0, 0)),
        # Slurm splits one outage into several events; planned drains of busbar and their reboots do not count.
        ([out(2, "x"), out(2 + 1 / 24, "Not responding"), out(5, "x")], [], [], 2, (0, 2, 0, 0, 0)),
        ([out(2, "busbar: NVIDIA driver"), out(2 + 1 / 24, "Node unexpectedly rebooted")], [], [], 0, (0,) * 5),
        ([], [], [3 * DAY, 4 * DAY], 4, (0, 0, 2, 0, 0)),
        # Points per signal are limited.
        ([out(day, "x") for day in range(2, 20)], [], [], 3, (0, 18, 0, 0, 0)),
    ],
)
def test_points(
    events: list[dict[str, Any]],
    jobs: list[dict[str, Any]],
    blames: list[int],
    points: int,
    counts: tuple[int, ...],
) -> None:
    score = lemon_score(events, jobs, blames, node="gpu1", since=DAY)
    assert score.points == points
    assert tuple(score.counts.values()) == counts
    assert score.missing == []


def test_each_different_xid_counts_once() -> None:
    reasons = ("Xid 79 (x)", "Xid 79 (y)", "Xid 48 (z)")
    events = [out(day, f"busbar health: GPU 0: {reason}") for day, reason in enumerate(reasons, start=2)]
    score = lemon_score(events, [], [], node="gpu1", since=DAY)
    assert (score.counts["xid_cnt"], score.counts["out_count"]) == (2, 3)


def test_unknown_signal_is_missing_and_not_zero() -> None:
    score = lemon_score(None, None, [2 * DAY], node="gpu1", since=DAY)
    assert score.points == 2
    assert score.missing == ["xid_cnt", "out_count", "multi_node_node_fails", "single_node_node_fails"]


def test_no_single_signal_reaches_the_limit_but_all_together_do() -> None:
    assert all(signal.most < LIMIT for signal in SIGNALS.values())
    events = [out(2, "busbar health: GPU 0: Xid 79 (x)"), out(4, "Not responding")]
    score = lemon_score(events, [job(1), job(4)], [3 * DAY], node="gpu1", since=DAY)
    assert score.points >= LIMIT
