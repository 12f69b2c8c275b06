"""Tests of drift: a validation compared with the site's history."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.report.drift import with_drift
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.report.history import drift
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.report.report_reader import normalised
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.report.tested_systems import changed_facts
from jsonschema import Draft202012Validator
from report_samples import of_pairs, small

ROOT = Path(__file__).parents[6]
SCHEMA = json.loads((ROOT / "roles/validation/files/report.schema.json").read_text())
DAYS = [f"2026-11-{day}T08:00:00Z" for day in range(10, 16)]


def software(data: dict[str, Any], driver: str, nccl: str) -> dict[str, Any]:
    """Return a report whose nodes have these versions of the driver and NCCL."""
    data = json.loads(json.dumps(data))
    for test in data["tests"]:
        test["environment"]["NVIDIA driver"] = driver
        for run in test["runs"]:
            run["nccl_version"] = nccl
    return data


PAST = [normalised(software(small(day), "570.1", "2.26")) for day in DAYS]


def compared(how: str, slow: float = 0.98 * 0.94, **versions: str) -> dict[str, Any]:
    now = {"driver": "570.1", "nccl": "2.26", **versions}
    data = software(small(slow=slow), **now)
    return with_drift(data, normalised(data), PAST, how)


def test_slowdown_against_earlier_passes_is_a_finding() -> None:
    found = compared("finding")
    (test,) = [test for test in found["tests"] if any(said.startswith("drift: ") for said in test["findings"])]
    assert (test["name"], test["verdict"], found["verdict"]) == ("node-gpu3", "FAIL", "FAIL")
    assert "below its median of 6 earlier passes" in test["findings"][-1]
    assert [(item["subject"], item["name"], item["nodes"]) for item in found["drift"]] == [
        ("test", "node-gpu3", ["gpu3"])
    ]
    Draft202012Validator(SCHEMA).validate(found)


def above_the_floor(how: str) -> dict[str, Any]:
    """Return a drift report in which one node is slower than the others but above the floor."""
    data = software(small(), "570.1", "2.26")
    (test,) = [test for test in data["tests"] if test["name"] == "node-gpu3"]
    test["measured_busbw"] = 440.0
    return with_drift(data, normalised(data), PAST, how)


def test_drift_fails_the_validation_and_names_the_culprit_if_so_configured() -> None:
    found = above_the_floor("finding")
    assert (found["verdict"], found.get("culprits")) == ("PASS", None)
    failed = above_the_floor("fail")
    assert failed["verdict"] == "FAIL"
    assert failed["reason"].startswith("drift: node-gpu3: 440 GB/s is 7.")
    assert [(item["kind"], item["nodes"]) for item in failed["culprits"]] == [("node", ["gpu3"])]
    (test,) = [test for test in failed["tests"] if test["verdict"] == "FAIL"]
    assert test["reason"].startswith("drift: 440 GB/s is 7.")
    Draft202012Validator(SCHEMA).validate(failed)


def test_validation_without_drift_passes() -> None:
    found = compared("fail", slow=1.0)
    assert (found["verdict"], found["drift"]) == ("PASS", [])


@pytest.mark.parametrize(("versions", "known"), [({}, True), ({"driver": "580.2"}, False), ({"nccl": "2.27"}, False)])
def test_fleet_median_covers_one_driver_and_one_nccl_version(versions: dict[str, str], *, known: bool) -> None:
    data = software(small(), **{"driver": "570.1", "nccl": "2.26", **versions})
    one = [test for test in data["tests"] if test["name"] == "node-gpu1"]
    (item,) = drift(normalised({**data, "tests": one}), PAST)
    # Four nodes have results with the same versions; with other versions only the node itself has, which is too few.
    assert (item["fleet_median"] is not None) is known
    assert item["own_median"] is not None


def test_drift_of_search_pairs_blames_the_slow_node() -> None:
    past = [normalised(of_pairs(slow="", started=day)) for day in DAYS]
    data = of_pairs(slow="gpu3")
    found = with_drift(data, normalised(data), past, "fail")
    assert found["verdict"] == "FAIL"
    assert ["gpu3"] in [item["nodes"] for item in found["culprits"]]
    assert not any(test["reason"].startswith("drift: ") for test in found["tests"])


def test_changed_facts_between_two_reports_are_listed() -> None:
    first = normalised(software(small(DAYS[0]), "570.1", "2.26"))
    second = software(small(), "580.2", "2.26")
    second["tests"][0]["environment"]["Kernel"] = "Linux 6.12"
    found = {item["term"]: (item["first"], item["second"]) for item in changed_facts(first, normalised(second))}
    assert found == {"NVIDIA driver": ("570.1", "580.2"), "Kernel": ("", "Linux 6.12")}
    assert changed_facts(first, first) == []
