"""Tests of stage storage: planned job, report, and nodes that continue."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.validation.check_options import (
    input_problems,
    typed,
)
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.validation.next_tests import (
    budget,
    next_step,
    with_results,
)
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.validation.validation_report import (
    drain_plan,
    report,
    summary_lines,
)
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.validation.validation_types import FIRST
from report_samples import nccl_text
from storage_samples import NAMES, OPTIONS, STORAGE, edit, entry, private, storage_lines, storage_text
from validation_samples import CATALOGUE, job_entry

if TYPE_CHECKING:
    from collections.abc import Callable

    from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.validation.validation_types import State


def after(text: str | None, options: dict[str, Any] | None = None, **changes: Any) -> State:  # noqa: ANN401
    options = options or OPTIONS
    return with_results(options, None, next_step(options), {"tests": [entry(**changes)]}, [text])


def said(*changes: Callable[[dict[str, Any]], dict[str, Any] | None]) -> str:
    return storage_text(storage_lines(3, *changes))


def test_storage_is_the_first_stage_with_one_job_of_all_nodes() -> None:
    step = next_step(OPTIONS)
    assert (step["stage"], [test["name"] for test in step["tests"]]) == ("storage", ["storage"])
    job = step["tests"][0]["job"]
    assert (job["nodes"], job["script"], job["partners"]) == (NAMES, STORAGE["script"], 0)
    assert job["arguments"] == ["--ntasks-per-node=1", "--partition=batch"]
    assert "storage: all nodes together at /shared, at most 600 s" in budget(OPTIONS)


def test_single_node_gets_the_requested_partners() -> None:
    job = next_step(OPTIONS | {"nodes": ["gpu2"], "partners": 1})["tests"][0]["job"]
    assert (job["nodes"], job["candidates"], job["partners"]) == (["gpu2"], ["gpu1", "gpu3"], 1)


def test_passed_nodes_continue() -> None:
    state = after(said())
    assert state["tests"][0]["verdict"] == "PASS"
    assert state["tests"][0]["source"] == "the operator"
    step = next_step(OPTIONS, state)
    assert (step["stage"], step["tests"][0]["job"]["nodes"]) == ("cluster", NAMES)
    whole = with_results(OPTIONS, state, step, {"tests": [job_entry("cluster", NAMES)]}, [nccl_text(NAMES, 8, 365.0)])
    data = report(OPTIONS, whole)
    assert (data["verdict"], data["reason"].split(":")[0]) == ("PASS", "cluster")


def test_blamed_node_is_reported_drained_and_excluded() -> None:
    state = after(said(private("gpu2", type="nfs4", mount="/shared", source="other:/x")))
    step = next_step(OPTIONS, state)
    assert step["tests"][0]["job"]["nodes"] == ["gpu1", "gpu3"]
    data = report(OPTIONS, state)
    assert [(item["kind"], item["nodes"], item["tests"]) for item in data["culprits"]] == [
        ("node", ["gpu2"], ["storage"])
    ]
    assert data["reason"].startswith("storage: gpu2: sees a different tree at /shared than the others")
    assert [item["node"] for item in drain_plan(typed(OPTIONS), data["culprits"], FIRST)["nodes"]] == ["gpu2"]
    assert any(line.startswith("FAIL  storage on gpu[1-3]") for line in summary_lines(data))


def test_fault_of_all_nodes_drains_no_node() -> None:
    state = after(said(edit("write", ok=False, error="Read-only file system")))
    data = report(OPTIONS, state)
    assert (data["verdict"], data.get("culprits"), data["drain"]["nodes"]) == ("FAIL", None, [])
    assert "all nodes, so the file system or its server is faulty" in data["reason"]
    assert next_step(OPTIONS, state)["tests"][0]["job"]["nodes"] == NAMES


@pytest.mark.parametrize(
    ("profile", "options", "verdict", "source"),
    [
        ({}, {"read_floor": 0, "write_floor": 0}, "INCONCLUSIVE", None),
        ({}, {"read_floor": 0, "write_floor": 0, "speed": False}, "PASS", None),
        (
            {"read_floor_bytes_per_second": 1e6, "source": "x"},
            {"read_floor": 0, "write_floor": 5},
            "PASS",
            "operator; x",
        ),
        (
            {"read_floor_bytes_per_second": 9e9, "source": "x"},
            {"read_floor": 0, "write_floor": 5},
            "FAIL",
            "operator; x",
        ),
        ({"read_floor_bytes_per_second": 9e9, "source": "x"}, {"read_floor": 7, "write_floor": 5}, "PASS", "operator"),
    ],
)
def test_floors_come_from_the_options_or_the_profile(
    profile: dict[str, Any], options: dict[str, Any], verdict: str, source: str | None
) -> None:
    catalogue = {"dgx_h100": CATALOGUE["dgx_h100"] | ({"storage": profile} if profile else {})}
    asked = OPTIONS | {"catalogue": catalogue, "storage": STORAGE | options}
    (test,) = after(said(), asked)["tests"]
    assert test["verdict"] == verdict, test["reason"]
    assert test["source"] == (f"the {source}" if source else None)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"path": ""}, "must be the path of a shared directory tree"),
        ({"path": "shared"}, "must be the path of a shared directory tree"),
        ({"path": "/a\nb"}, "must be the path of a shared directory tree"),
        ({"size": "12Q"}, "validation_storage_size: '12Q' is not a valid size"),
        ({"size": "4K"}, "validation_storage_size: 4K is less than 1M"),
        ({"seconds": 0}, "validation_storage_seconds: 0 is not a whole number, 1 or more"),
        ({"write_floor": -1}, "validation_storage_write_floor: -1 is not a number, 0 or more"),
    ],
)
def test_invalid_options_are_reported_in_one_line(changes: dict[str, Any], words: str) -> None:
    (problem,) = input_problems(OPTIONS | {"storage": STORAGE | changes})
    assert words in problem
    with pytest.raises(ValueError, match="validation_storage_"):
        next_step(OPTIONS | {"storage": STORAGE | changes}, FIRST)
