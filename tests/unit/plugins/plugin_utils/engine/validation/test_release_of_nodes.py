"""Tests of the nodes that are resumed after a validation."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.validation.resume_nodes import (
    keeps_reason,
    not_admitted,
    passed_nodes,
    released_nodes,
)
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.validation.validation_types import FIRST

HELD = {"gpu1": "busbar: 1 of 8 NICs idle", "gpu2": "fan is loud", "gpu3": "busbar: slow"}


def ran(name: str, nodes: str, verdict: str, partners: str = "") -> dict[str, Any]:
    return {"name": name, "nodes": nodes.split(), "partners": partners.split(), "verdict": verdict}


ALONE = [ran(f"node-{node}", node, "PASS") for node in HELD]
TOGETHER = "gpu1 gpu2 gpu3"


def culprit(*nodes: str, kind: str = "node") -> dict[str, Any]:
    return {"kind": kind, "nodes": list(nodes), "reason": "slow", "tests": [], "rail": ""}


@pytest.mark.parametrize(
    ("tests", "blamed", "changes", "passed"),
    [
        ([*ALONE, ran("cluster", TOGETHER, "PASS", "gpu9")], [], {}, ["gpu1", "gpu2", "gpu3"]),
        ([*ALONE[1:], ran("cluster", "gpu2 gpu3", "PASS")], [], {}, ["gpu2", "gpu3"]),
        ([*ALONE, ran("cluster", TOGETHER, "INCONCLUSIVE")], [], {}, []),
        ([*ALONE, ran("cluster", TOGETHER, "FAIL")], [culprit("gpu3")], {}, ["gpu1", "gpu2"]),
        ([*ALONE, ran("cluster", TOGETHER, "FAIL")], [culprit("gpu3", kind="rail")], {}, ["gpu1", "gpu2"]),
        ([*ALONE, ran("cluster", TOGETHER, "FAIL")], [culprit("gpu3", "gpu9", kind="link")], {}, []),
        ([*ALONE, ran("cluster", TOGETHER, "INCONCLUSIVE")], [culprit("gpu3")], {}, []),
        ([*ALONE[:2], ran("node-gpu3", "gpu3", "FAIL")], [culprit("gpu3")], {}, ["gpu1", "gpu2"]),
        ([*ALONE, ran("cluster", TOGETHER, "PASS")], [], {"stopped": "interrupted"}, []),
        ([*ALONE, ran("cluster", TOGETHER, "PASS")], [], {"verdict": "FAIL"}, []),
        ([*ALONE], [], {"left_out": {"gpu1": "down"}}, ["gpu2", "gpu3"]),
        ([*ALONE], [], {"unresolved": [{"nodes": ["gpu2"], "reason": "?"}]}, ["gpu1", "gpu3"]),
        ([], [], {}, []),
    ],
)
def test_node_passes_only_without_open_results(
    tests: list[Any], blamed: list[Any], changes: dict[str, Any], passed: list[str]
) -> None:
    state: Any = {**FIRST, "held": HELD, "tests": tests}
    report: Any = {"verdict": "INCONCLUSIVE", "stopped": "", "unresolved": [], "left_out": {}, **changes}
    assert passed_nodes(state, report, blamed) == passed


@pytest.mark.parametrize(
    ("policy", "resumed"), [("own", ["gpu1", "gpu3"]), ("all", ["gpu1", "gpu2", "gpu3"]), ("none", [])]
)
def test_nodes_drained_by_people_are_resumed_only_by_option(policy: str, resumed: list[str]) -> None:
    state: Any = {**FIRST, "held": HELD}
    options: Any = {"resume": policy}
    assert released_nodes(options, state, ["gpu1", "gpu2", "gpu3"]) == resumed


@pytest.mark.parametrize(
    ("reason", "kept"),
    [
        ("busbar: 2 of 8 NICs idle", False),
        ("fan is loud", True),
        ("busbar health: gpu 3 is lost", True),
        ("busbar: NVIDIA driver 580.95 waits for a reboot", True),
        ("busbar: MIG layout", True),
        ("busbar: leaves the cluster", True),
        ("busbar: was drained before its validation", True),
        ("busbar: update", True),
        ("busbar: update : Not responding", True),
        ("busbar: update failed: became unreachable", False),
        ("busbar: repair", True),
        ("busbar: upgrade of Slurm", True),
        ("busbar: its machine is replaced", True),
    ],
)
def test_drain_reason_unrelated_to_performance_is_kept(reason: str, *, kept: bool) -> None:
    """A node to be removed, or with a pending driver reboot, is not resumed because it is fast."""
    assert keeps_reason({"held": {"gpu1": reason}}, "gpu1") is kept  # type: ignore[typeddict-item]


@pytest.mark.parametrize(
    ("tests", "passed"),
    [
        ([ran("node-gpu1", "gpu1", "PASS")], []),
        ([ran("node-gpu1", "gpu1", "PASS"), ran("cluster", "gpu1", "PASS", "gpu9")], ["gpu1"]),
        ([ran("cluster", "gpu1 gpu2", "FAIL"), ran("pair", "gpu1 gpu9", "PASS")], ["gpu1"]),
        ([ran("node-gpu1", "gpu1", "PASS"), ran("cluster", "gpu1 gpu2", "FAIL")], []),
    ],
)
def test_new_node_passes_only_together_with_others(tests: list[Any], passed: list[str]) -> None:
    state: Any = {**FIRST, "held": {"gpu1": "busbar: new"}, "tests": tests}
    report: Any = {"verdict": "FAIL", "stopped": "", "unresolved": [], "left_out": {}}
    blamed: Any = [culprit("gpu2")]
    assert passed_nodes(state, report, blamed) == passed


@pytest.mark.parametrize(
    ("changes", "blamed", "reasons"),
    [
        ({"verdict": "PASS"}, [], {"gpu1": "no test together with other nodes has passed"}),
        ({"reason": "cluster: 'no' floor"}, [], {"gpu1": "cluster:  no  floor"}),
        ({"unresolved": [{"nodes": ["gpu1", "gpu4"], "reason": "comes and goes"}]}, [], {"gpu1": "comes and goes"}),
        ({}, [culprit("gpu1", "gpu9", kind="link")], {"gpu1": "slow"}),
        # A node that was never tested and is new only according to Slurm.
        (
            {"nodes": ["gpu1", "gpu4"], "left_out": {"gpu4": "does not answer (busbar: new: was (busbar: new))"}},
            [],
            {"gpu1": "why", "gpu4": "does not answer"},
        ),
    ],
)
def test_failed_new_node_stays_drained_with_the_reason(
    changes: dict[str, Any], blamed: list[Any], reasons: dict[str, str]
) -> None:
    held = {"gpu1": "busbar: new", "gpu2": "fan is loud", "gpu3": "busbar: new: was slow"}
    shown = ["gpu4 busbar: new: was (busbar: new) (slurm, 2026-11-23T00:00:00)", "gpu9 busbar: slow (root, 2026)"]
    state: Any = {**FIRST, "held": held, "node_reasons": shown}
    nodes = ["gpu1", "gpu2", "gpu3"]
    report: Any = {"verdict": "FAIL", "reason": "why", "nodes": nodes, "unresolved": [], "left_out": {}, **changes}
    expected = [{"node": node, "reason": f"busbar: new: {why}"} for node, why in reasons.items()]
    assert not_admitted(state, report, blamed, ["gpu3"]) == expected
