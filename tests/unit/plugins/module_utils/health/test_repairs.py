"""Tests of which nodes are repaired, how and how often, and of the history file."""

from __future__ import annotations

import json
from typing import Any

import pytest
from ansible_collections.busbar.cluster.plugins.module_utils.health.repairs import (
    Record,
    bounded,
    choose,
    lines_of,
    read_records,
    repair_plan,
)

NOW = 1_800_000_000.0
DAY = 24 * 3600.0
SEEN = {
    "nodes": "gpu1|drained|busbar health: GPU 2 is lost\n"
    "gpu2|draining|busbar health: missing: /dev/nvidia0\n"
    "gpu3|drained|fan, Meyer\n"
    "gpu4|idle|none\n"
    "gpu5|drained|busbar health: ISOLATE 2 repairs in 7 days did not last\n"
    "gpu6|drained|busbar: repair\n",
    "queue": "41|alice|gpu[2,4]\n",
}
CLUSTER = {"compute": [f"gpu{number}" for number in range(1, 7)], "limited": [f"gpu{number}" for number in range(1, 7)]}


def plan(history: list[Record] | None = None, asked: tuple[str, ...] = ()) -> dict[str, Any]:
    return repair_plan(asked, CLUSTER, SEEN, lines_of(history or []), NOW)


def test_only_drains_of_the_health_check_without_jobs_are_repaired() -> None:
    made = plan([Record(NOW - 60, "gpu6", "began", "reboot", "busbar health: GPU 0 is lost")])
    assert list(made["nodes"]) == ["gpu1", "gpu6"]
    assert made["nodes"]["gpu6"] == {"reason": "busbar: repair", "repairs": 1, "severity": "RESET", "goes_on": True}
    assert made["skipped"]["gpu2"] == "job 41 of alice; run again after its jobs have finished"
    assert "needs replacement" in made["skipped"]["gpu5"]


def test_requested_nodes_that_are_not_repaired_are_reported() -> None:
    made = plan(asked=("gpu3", "gpu4"))
    assert made["nodes"] == {}
    assert made["skipped"] == {
        "gpu3": "drained: fan, Meyer; the health check did not drain it",
        "gpu4": "idle; the health check did not drain it",
    }
    assert "gpu9: not compute nodes of the inventory" in plan(asked=("gpu9",))["problems"][0]


def test_repairs_of_the_last_seven_days_are_counted() -> None:
    history = [Record(NOW - days * DAY, "gpu1", "began") for days in (8, 6.9, 1)]
    history += [Record(NOW - 1, "gpu1", "failed", "reboot", "no"), Record(NOW - 1, "gpu2", "began")]
    node = plan(history)["nodes"]["gpu1"]
    assert (node["repairs"], node["severity"], node["goes_on"]) == (2, "RESET", False)


NODE = {"reason": "busbar health: GPU 2 is lost", "repairs": 0, "severity": "", "goes_on": False}


def look(*found: tuple[str, str]) -> str:
    return json.dumps({"findings": [{"check": check, "severity": severity} for check, severity in found]})


@pytest.mark.parametrize(
    ("note", "found", "allowed", "node", "done"),
    [
        ("RESET\nx", look(("gpu", "RESET"), ("swap", "MONITOR")), "reboot", {}, "reset"),
        ("RESET\nx", look(("xid", "RESET")), "reset", {}, "reset"),
        ("RESET\nx", look(("gpu", "RESET"), ("disk", "RESET")), "reboot", {}, "reboot"),
        ("RESET\nx", look(("disk", "RESET")), "reset", {}, "skip"),
        ("RESET\nx", look(), "reboot", {}, "reboot"),
        ("RESET\nx", "no JSON", "reboot", {}, "reboot"),
        ("RESET\nx", look(("gpu", "RESET"), ("memory", "ISOLATE")), "reboot", {}, "skip"),
        ("ISOLATE\nx", look(), "reboot", {}, "skip"),
        ("MONITOR\nx", look(), "reboot", {}, "skip"),
        ("", look(), "reboot", {}, "skip"),
        ("", look(), "reboot", {"severity": "RESET"}, "reboot"),
        ("RESET\nx", look(("gpu", "RESET")), "none", {}, "skip"),
        ("RESET\nx", look(("gpu", "RESET")), "reboot", {"repairs": 2}, "isolate"),
        ("", look(), "reboot", {"repairs": 2, "severity": "RESET", "goes_on": True}, "reboot"),
    ],
)
def test_repair_depends_on_severity_findings_and_count(
    note: str, found: str, allowed: str, node: dict[str, Any], done: str
) -> None:
    assert choose(NODE | node, note, found, allowed, 2)["do"] == done


def test_history_is_bounded_and_truncated_lines_are_ignored() -> None:
    kept = [Record(NOW - 1, "gpu1", "began", "reset", "two\nlines"), Record(NOW, "gpu1", "repaired", "reset")]
    text = lines_of(bounded([Record(NOW - 400 * DAY, "gpu9", "began"), *kept], NOW))
    assert read_records(text + '{"time": 1, "no') == [kept[0]._replace(reason="two lines"), kept[1]]
