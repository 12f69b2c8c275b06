"""Tests of the stages of a validation, with a simulated cluster."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any, cast

import pytest
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.validation.check_options import typed
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.validation.next_tests import (
    budget,
    next_step,
    with_results,
)
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.validation.resume_nodes import passed_nodes
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.validation.validation_report import (
    drain_plan,
    report,
    summary_lines,
)
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.validation.validation_types import FIRST
from validation_fabrics import CRASHED, HUNG, NAMES, OPTIONS, Fabric, answer, drive, entry, guilty, with_partners
from validation_samples import CATALOGUE


def test_a_healthy_cluster_needs_two_steps() -> None:
    found, stages = drive(Fabric())
    assert (found["verdict"], stages) == ("PASS", ["node", "cluster"])
    assert "culprits" not in found
    assert [test["name"] for test in found["tests"]] == [*(f"node-{name}" for name in NAMES), "cluster"]


def test_a_healthy_cluster_passes_with_pairs() -> None:
    found, stages = drive(Fabric(), stages=["node", "pair", "cluster"])
    assert (found["verdict"], found["culprits"], found["unresolved"]) == ("PASS", [], [])
    assert stages == ["node", "pair", "pair", "pair", "search", "cluster"]
    assert sum(test["stage"] == "pair" for test in found["tests"]) == 6


@pytest.mark.parametrize("stages", [["cluster"], ["node", "cluster"], ["node", "pair", "cluster"], ["pair"]])
def test_a_slow_node_is_named_with_its_tests(stages: list[str]) -> None:
    found, _steps = drive(Fabric(slow="gpu3"), stages=stages)
    assert (found["verdict"], guilty(found), found["unresolved"]) == ("FAIL", [("node", ["gpu3"])], [])
    assert found["reason"].startswith("gpu3: slow with gpu")
    assert sorted(found["culprits"][0]["tests"]) == ["pair-gpu1-gpu3", "pair-gpu2-gpu3", "pair-gpu3-gpu4"]
    assert any(line == "FAIL  culprit nodes: gpu3" for line in summary_lines(found))
    assert len({test["name"] for test in found["tests"]}) == len(found["tests"])


def test_cluster_is_measured_without_a_floor_and_the_reason_gives_the_remedy() -> None:
    catalogue = {"dgx_h100": {**CATALOGUE["dgx_h100"], "busbw": {}}}
    found, stages = drive(Fabric(), catalogue=catalogue)
    assert (found["verdict"], stages) == ("INCONCLUSIVE", ["node", "cluster"])
    assert found["skipped"] == {}
    assert found["reason"].startswith("cluster: no floor is known for all_reduce of dgx_h100 on 4 node(s)")
    measured = found["tests"][-1]["measured_busbw"]
    assert measured is not None
    for words in (f"{measured:.4g} GB/s", "validation_floor_gbs", "busbw of the hardware profile"):
        assert words in found["reason"]


def test_floor_depends_on_the_number_of_nodes() -> None:
    found, _steps = drive(Fabric(), stages=["pair", "cluster"], catalogue=CATALOGUE)
    assert {test["floor"] for test in found["tests"] if test["stage"] == "pair"} == {440.0}
    assert {test["verdict"] for test in found["tests"] if test["stage"] == "pair"} == {"FAIL"}
    found, _steps = drive(Fabric(), catalogue=CATALOGUE)
    assert [(test["floor"], test["verdict"]) for test in found["tests"] if test["stage"] == "cluster"] == [
        (320.0, "PASS")
    ]


def test_node_failing_alone_is_blamed_and_the_others_continue() -> None:
    found, stages = drive(Fabric(weak="gpu2"))
    assert (found["verdict"], guilty(found), stages) == ("FAIL", [("node", ["gpu2"])], ["node", "cluster"])
    assert found["tests"][-1]["nodes"] == ["gpu1", "gpu3", "gpu4"]
    assert found["culprits"][0]["reason"].startswith("node-gpu2: too slow")


@pytest.mark.parametrize("how", [HUNG, CRASHED])
def test_node_crashing_alone_is_inconclusive_and_the_others_continue(how: dict[str, str]) -> None:
    found, _stages = drive(Fabric(weak="gpu2", broken="gpu2", how=how))
    assert (found["verdict"], guilty(found)) == ("INCONCLUSIVE", [])
    assert (found["tests"][-1]["name"], found["tests"][-1]["verdict"]) == ("cluster", "PASS")


@pytest.mark.parametrize("how", [HUNG, CRASHED])
def test_node_that_crashes_the_cluster_test_is_found_and_not_drained(how: dict[str, str]) -> None:
    found, _stages = drive(Fabric(broken="gpu2", how=how))
    assert (found["verdict"], guilty(found), found["drain"]["nodes"]) == ("INCONCLUSIVE", [], [])
    assert [item["nodes"] for item in found["unresolved"]] == [["gpu2"]]


ALL_PASSED = "left out gpu2 (job 11 of alice); all tests that ran on gpu[1-4] passed"
REST_PASSED = "left out gpu1 (job 11 of alice); all tests that ran on gpu[2-4] passed"


@dataclass(frozen=True)
class Used:
    """A cluster with jobs of other users; the node `taken` becomes busy with the cluster test."""

    busy: tuple[str, ...]
    taken: str = ""
    fabric: Fabric = field(default_factory=Fabric)
    jobs: str = "job 11 of alice"
    drained: str = ""
    state: str = "drained"
    preempted: bool = False

    def __call__(self, test: dict[str, Any]) -> tuple[dict[str, Any], str | None]:
        """Return the job's entry and the output of a test on the free nodes."""
        nodes = test["job"]["nodes"]
        left_out = {node: f"not idle: mixed, {self.jobs}" for node in nodes if node in self.busy}
        busy = dict.fromkeys(left_out, self.jobs)
        left_out |= {node: f"{self.state} (fan broken)" for node in nodes if node == self.drained}
        free = [node for node in nodes if node not in left_out]
        out = {"nodes": free, "left_out": left_out, "busy": busy}
        if not free:
            return {**entry(test, job_id="", state="", problem="0 usable node(s), 1 needed"), **out}, None
        if self.taken in free and len(nodes) > 1 and self.preempted:
            _made, text = self.fabric({**test, "job": {**test["job"], "nodes": free}})
            cut = (text or "")[: len(text or "") // 2]
            why = f"cut off: preempted by {self.jobs}"
            return {**entry(test, state="PREEMPTED", problem=why), **out, "busy": {self.taken: self.jobs}}, cut
        if self.taken in free and len(nodes) > 1:
            problem = f"did not start within 60 s: Resources ({self.taken}: {self.jobs})"
            return {**entry(test, state="PENDING", problem=problem), **out, "busy": {self.taken: self.jobs}}, None
        made, text = self.fabric({**test, "job": {**test["job"], "nodes": free}})
        return {**made, **out}, text


@pytest.mark.parametrize(
    ("used", "stages", "words"),
    [
        (Used(("gpu1",)), ["node", "cluster"], REST_PASSED),
        (Used(("gpu1",)), ["node", "pair", "cluster"], REST_PASSED),
        (Used(tuple(NAMES)), ["node", "pair", "cluster"], "left out gpu[1-4] (job 11 of alice); no node was tested"),
        (
            Used((), taken="gpu2"),
            ["node", "cluster"],
            "left out gpu2 (job 11 of alice); all tests that ran on gpu[1-4] passed",
        ),
        (
            Used((), taken="gpu2", preempted=True),
            ["node", "cluster"],
            "left out gpu2 (job 11 of alice); all tests that ran on gpu[1-4] passed",
        ),
    ],
    ids=["some", "some, pairs", "all", "between", "preempted"],
)
def test_busy_nodes_are_not_an_error_if_allowed(used: Used, stages: list[str], words: str) -> None:
    found, _steps = drive(used, allow_busy=True, stages=stages)
    assert (found["busy_allowed"], found["reason"]) == (True, words)
    assert found["verdict"] == "INCONCLUSIVE"
    said = summary_lines(found)
    assert said[-1] == f"validation {words}"
    assert not any(line.startswith("INCONCLUSIVE") for line in said)
    if len(used.busy) == len(NAMES):
        assert not any("PASS" in line for line in said)


@pytest.mark.parametrize(
    ("used", "changes", "verdict", "not_tested"),
    [
        (Used(("gpu1",)), {}, "INCONCLUSIVE", True),
        (Used(("gpu1",)), {"allow_busy": False}, "INCONCLUSIVE", True),
        (Used(("gpu1",), fabric=Fabric(slow="gpu3")), {"allow_busy": True}, "FAIL", False),
        (Used(("gpu1",), fabric=Fabric(broken="gpu3", weak="gpu3")), {"allow_busy": True}, "INCONCLUSIVE", False),
        (Used(("gpu1",), drained="gpu2"), {"allow_busy": True}, "INCONCLUSIVE", True),
        (Used((), drained="gpu2"), {"allow_busy": True}, "INCONCLUSIVE", True),
        (Used((), drained="gpu2", state="down"), {"allow_busy": True}, "INCONCLUSIVE", False),
        (Used((), taken="gpu2", preempted=True), {}, "INCONCLUSIVE", True),
    ],
    ids=[
        "not said",
        "not allowed",
        "slow",
        "broken",
        "another is drained",
        "drained",
        "down",
        "gave way",
    ],
)
def test_busy_nodes_do_not_hide_other_problems(
    used: Used, changes: dict[str, Any], verdict: str, *, not_tested: bool
) -> None:
    found, _steps = drive(used, **changes)
    assert (found["verdict"], found["busy_allowed"], found["not_tested"]) == (verdict, False, not_tested)
    assert summary_lines(found)[-1].startswith(f"{verdict}  validation of ")


def test_single_node_is_not_tested_twice() -> None:
    found, stages = drive(Fabric(), nodes=["gpu1"])
    assert (found["verdict"], stages, found["skipped"]) == ("PASS", ["node"], {})


def test_node_with_one_gpu_is_not_tested_alone() -> None:
    step = next_step({**OPTIONS, "hardware": dict.fromkeys(NAMES, "rtx_3060_desktop")})
    assert (step["stage"], len(step["tests"])) == ("cluster", 1)


def test_stages_without_remaining_nodes_are_reported() -> None:
    found, _stages = drive(
        lambda test: answer(test, 100.0 if test["name"] != "node-gpu1" else 475.0), stages=["node", "pair", "cluster"]
    )
    assert found["verdict"] == "FAIL"
    assert set(found["skipped"]) == {"pair", "cluster"}
    assert any(line.startswith("not run  stage cluster: 1 node(s)") for line in summary_lines(found))


def test_tests_without_enough_time_do_not_pass() -> None:
    options = {**OPTIONS}
    step = next_step(options, None, 1000.0)
    both = [Fabric()(cast("dict[str, Any]", test)) for test in step["tests"]]
    result = {"tests": [one for one, _text in both], "node_reasons": []}
    state = with_results(options, None, step, result, [text for _one, text in both])
    late = next_step(options, state, 1000.0 + 7199)
    assert (late["tests"], late["stopped"]) == ([], "the time limit of 7200 s for all tests was reached")
    assert report(options, state, late["stopped"])["verdict"] == "INCONCLUSIVE"
    assert report(options, state)["verdict"] == "INCONCLUSIVE"
    # A test keeps its own limit: the loop enforces the remaining total time.
    for bound, now in ((7200, 1000.0 + 7100), (0, 1e9)):
        step = next_step({**options, "time_limit": bound}, state, now)
        assert (step["time_limit"], step["wait"], step["stopped"]) == (600, 60, "")


@pytest.mark.parametrize(
    ("changes", "before", "drained", "words"),
    [
        ({}, [], ["gpu3"], ""),
        ({"drain_failed": False}, [], [], ""),
        ({"drain_limit": 24}, [], [], "gpu3 not drained: 1 of 4 nodes would be drained"),
        ({}, ["gpu1 busbar: slow (root, 1)"], [], "2 of 4 nodes would be drained"),
        ({}, ["gpu3 busbar: slow (root, 1)", "gpu2 other (root, 1)"], ["gpu3"], ""),
        ({"drain_limit": 0}, [], [], "validation_drain_limit: 0 %"),
    ],
)
def test_drain(changes: dict[str, Any], before: list[str], drained: list[str], words: str) -> None:
    blamed: Any = [
        {"kind": "node", "nodes": ["gpu3"], "reason": 'slow\nwith "gpu1"' + "!" * 300, "tests": []},
        {"kind": "link", "nodes": ["gpu1", "gpu2"], "reason": "slow", "tests": []},
    ]
    found = drain_plan(typed({**OPTIONS, **changes}), blamed, {**FIRST, "node_reasons": before})
    assert [item["node"] for item in found["nodes"]] == drained
    assert words in found["refused"]
    assert bool(words) == bool(found["refused"])
    assert all(item["reason"].startswith("busbar: slow with  gpu1") for item in found["nodes"])
    assert all(len(item["reason"]) <= 200 and '"' not in item["reason"] for item in found["nodes"])


def test_drain_reason_is_replaced_only_if_busbar_set_it() -> None:
    names = ("gpu1", "gpu2", "gpu3")
    blamed: Any = [{"kind": "node", "nodes": [node], "reason": "slow", "tests": []} for node in names]
    # A new node stays drained, with a reason that says so.
    state: Any = {**FIRST, "held": {"gpu1": "busbar: slower", "gpu2": "fan is loud", "gpu3": "busbar: new"}}
    found = drain_plan(typed({**OPTIONS, "drain_failed": False}), blamed, state)
    assert found == {"nodes": [{"node": "gpu1", "reason": "busbar: slow"}], "refused": ""}
    found = drain_plan(typed({**OPTIONS, "drain_failed": True}), blamed, state)
    assert found == {"nodes": [{"node": "gpu1", "reason": "busbar: slow"}], "refused": ""}


def test_budget_is_reported_in_one_line() -> None:
    said = budget(OPTIONS)
    assert said.startswith("validation of gpu[1-4]: node: 4 test(s) of one node each, at most 600 s; cluster: ")
    assert said.endswith("at most 7200 s in total")
    assert "if that fails, the culprit search, at most 30 rounds" in said


def test_bad_nic_among_500_new_nodes_is_found_and_the_others_are_admitted() -> None:
    old = [f"old{number}" for number in range(1, 9)]
    new = [f"new{number:03}" for number in range(1, 501)]
    pool = [*old, *new]
    changes: dict[str, Any] = {"nodes": new, "pool": pool, "hardware": dict.fromkeys(pool, "dgx_h100")}
    fabric, bad, seen, most = with_partners("new321"), "new321", set(), 0

    def watched(test: Any) -> tuple[dict[str, Any], Any]:  # noqa: ANN401 - as planned
        nonlocal most
        told, text = fabric(test)
        seen.update(told["partners"])
        most = max(most, len(told["nodes"] + told["partners"]))
        return {**told, "held": {node: "busbar: new" for node in told["nodes"] if node in new}}, text

    began = time.process_time()
    options = {
        **OPTIONS,
        **changes,
        "partners": 2,
        "stages": ["node", "cluster"],
        "last_results": dict.fromkeys(old, True),
    }
    state, steps = None, 0
    while (step := next_step(options, state, 1000.0))["tests"]:
        both = [watched(test) for test in step["tests"]]
        result = {"tests": [one for one, _text in both], "node_reasons": []}
        state = with_results(options, state, step, result, [text for _one, text in both])
        steps += 1
    assert state is not None
    found = report(options, state, step["stopped"])
    assert guilty(found) == [("node", [bad])]
    assert passed_nodes(state, found, found["culprits"]) == [node for node in new if node != bad]
    # First all new nodes with two existing ones, then subsets of the suspected nodes.
    assert (seen, most) == ({"old1", "old2"}, len(new) + 2)
    assert steps < 40
    assert time.process_time() - began < 60
