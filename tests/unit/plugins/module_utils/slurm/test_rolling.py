"""Tests of rolling update batches: their size, skipped nodes, and resuming an interrupted run."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.busbar.cluster.plugins.filter.rolling_plan import plan as planned
from ansible_collections.busbar.cluster.plugins.module_utils.slurm.nodes_and_jobs import jobs_on
from ansible_collections.busbar.cluster.plugins.plugin_utils.slurm.rolling import cut, rolling_plan, share_of

NODES = [f"gpu{number}" for number in range(1, 9)]
ASKED: dict[str, Any] = {"nodes": "gpu[1-8]", "batch": "25%", "by": "", "max_failures": 0, "packages": "all"}
CLUSTER: dict[str, Any] = {"compute": [*NODES, "ctl"], "limited": NODES, "needed": {"slurm_controller": ["ctl"]}}


def plan(
    changed: dict[str, str] | None = None, queue: str = "", state: dict[str, Any] | None = None, **asked: object
) -> dict[str, Any]:
    known = dict.fromkeys(NODES, "idle|none") | {"ctl": "idle|none"} | (changed or {})
    seen = {"nodes": "".join(f"{name}|{said}\n" for name, said in known.items()), "queue": queue}
    extra = {key: asked.pop(key) for key in ("switches", "rack", "limited") if key in asked}
    return rolling_plan(ASKED | asked, CLUSTER | extra, seen, state)


@pytest.mark.parametrize(
    ("given", "whole", "many"),
    [("25%", 16, 4), ("25%", 3, 1), ("12.5 %", 8, 1), ("100%", 3, 3), (2, 3, 2), ("9", 3, 9)],
)
def test_batch_is_a_number_or_a_percentage(given: object, whole: int, many: int) -> None:
    assert share_of(given, whole, "key", 1) == many


@pytest.mark.parametrize("given", [0, "0", "0%", "101%", "-1", "1.5", "", "all", True])
def test_invalid_batch_is_refused(given: object) -> None:
    assert any(problem.startswith("update_nodes_batch") for problem in plan(batch=given)["problems"])


@pytest.mark.parametrize(("given", "many"), [(0, 0), ("50%", 1), ("10%", 0), (2, 2)])
def test_max_failures_is_a_number_or_a_percentage_of_the_batch(given: object, many: int) -> None:
    assert plan(max_failures=given)["allowed"] == [many] * 4


def test_batch_has_an_extra_host_that_outlives_failed_nodes() -> None:
    made = plan(nodes="gpu[1-3]", batch=2)
    assert made["batches"] == [["gpu1", "gpu2"], ["gpu3"]]
    assert made["keepers"] == ["update-batch-1", "update-batch-2"]
    assert made["serial"] == [3, 2]


def test_invalid_max_failures_is_refused() -> None:
    assert "update_nodes_max_failures" in plan(max_failures="200%")["problems"][0]


def test_batch_does_not_span_two_switches() -> None:
    switches = [{"name": "s1", "nodes": "gpu[1-3]"}, {"name": "s2", "nodes": "gpu[4-8]"}, {"name": "root"}]
    assert plan(by="switch", switches=switches)["batches"] == [
        *(["gpu1", "gpu2"], ["gpu3"]),
        *(["gpu4", "gpu5"], ["gpu6", "gpu7"], ["gpu8"]),
    ]
    assert cut(NODES, 8, dict.fromkeys(NODES[:2], "r1")) == [NODES[:2], NODES[2:]]


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"by": "switch", "switches": [{"name": "s1", "nodes": "gpu[1-7]"}]}, "the switch of gpu8 is unknown"),
        ({"by": "rack"}, "set nvlink_domain"),
        ({"by": "room"}, "'room': use switch or rack"),
        ({"nodes": ""}, "update_nodes is empty"),
        ({"nodes": "gpu[1-9]"}, "gpu9 is not a compute node of the inventory (slurm_compute) (did you mean gpu"),
        ({"nodes": "gpu1,ctl"}, "ctl is also in the group slurm_controller"),
        ({"nodes": "gpu[1"}, "update_nodes: "),
    ],
)
def test_invalid_values_are_refused(asked: dict[str, Any], said: str) -> None:
    problems = plan(**asked)["problems"]
    assert any(said in problem for problem in problems), problems


def test_nodes_drained_by_others_are_skipped_and_reported() -> None:
    made = plan({"gpu2": "drained|fan, Meyer", "gpu3": "down*|Not responding", "gpu4": "mixed|none"})
    assert made["skipped"] == {
        "gpu2": "drained: fan, Meyer",
        "gpu3": "down: Not responding",
    }
    assert [node for batch in made["batches"] for node in batch] == ["gpu1", *NODES[3:]]
    assert "gpu2 is skipped: drained: fan, Meyer" in made["lines"]


def test_jobs_that_a_batch_waits_for_are_named() -> None:
    made = plan(queue="41|alice|gpu[1-2]\n42_7|bob|gpu2\n")
    assert made["lines"][0] == (
        "batch 1 of 4: gpu[1-2], waits for gpu1: job 41 of alice; gpu2: job 41 of alice, job 42_7 of bob"
    )
    assert made["lines"][1] == "batch 2 of 4: gpu[3-4], idle"
    assert jobs_on("41|alice|gpu9\n", NODES) == {}


def test_second_run_continues_an_interrupted_one() -> None:
    state = {"key": plan()["key"], "done": ["gpu1", "gpu2", "gpu3"], "ended": False}
    # gpu3 was recorded as done but not yet resumed; gpu6 was being updated.
    made = plan({"gpu3": "drained|busbar: update", "gpu6": "down*|busbar: update"}, state=state, batch=2)
    assert made["finished"] == ["gpu1", "gpu2"]
    assert made["batches"] == [["gpu3", "gpu6"], ["gpu4", "gpu5"], ["gpu7", "gpu8"]]


@pytest.mark.parametrize("change", [{"ended": True}, {"key": "another"}])
def test_new_update_ignores_the_previous_state(change: dict[str, Any]) -> None:
    state = {"key": plan()["key"], "done": ["gpu1"], "ended": False} | change
    assert plan(state=state)["finished"] == []


def test_nodes_left_by_another_update_are_reported() -> None:
    made = plan({"gpu8": "drained|busbar: update"}, nodes="gpu[1-2]")
    assert "gpu8 is drained by another update that was interrupted" in made["lines"][-1]


@pytest.mark.parametrize(
    ("nodes", "done", "line"),
    [("gpu2", [], "no node is left to update"), ("gpu1", ["gpu1"], "all nodes are up to date")],
)
def test_run_without_batches_tells_whether_nodes_were_skipped(nodes: str, done: list[str], line: str) -> None:
    first = plan({"gpu2": "drained|fan, Meyer"}, nodes=nodes)
    made = plan({"gpu2": "drained|fan, Meyer"}, nodes=nodes, state={"key": first["key"], "done": done})
    assert (made["batches"], made["lines"][-1]) == ([], line)


def test_hosts_outside_of_the_limit_are_skipped() -> None:
    made = plan(limited=NODES[:2])
    assert made["batches"] == [["gpu1", "gpu2"]]
    assert made["skipped"]["gpu3"] == "outside of --limit"


def test_update_started_on_another_host_is_a_problem() -> None:
    seen = {"nodes": "".join(f"{name}|idle|none\n" for name in [*NODES, "ctl"]), "queue": ""}
    mine = planned(ASKED, CLUSTER, seen)
    state = {
        "key": mine["key"],
        "done": [],
        "ended": False,
        "holder": mine["holder"] | {"host": "prov2", "user": "bob"},
    }
    (problem,) = planned(ASKED, CLUSTER, seen, state)["problems"]
    assert "another update is running: bob on prov2" in problem
    assert "delete /var/lib/busbar/update_nodes.json on the first controller" in problem
    for known in (state | {"ended": True}, state | {"holder": mine["holder"]}):
        assert planned(ASKED, CLUSTER, seen, known)["problems"] == []
