# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""Compare a validation with earlier ones, and report or fail tests that have become slower (drift).

A drifted value leads to FAIL only if it belongs to a test whose verdict counts, or is the median of a node over all its
pairs. A single test of the culprit search does not count.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..validation.nccl_judge import FAIL
from ..validation.stage_base import Counts
from ..validation.stage_registry import stage_of
from .history import drift

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .report_types import Compared, ReadReport

_WORD = "drift"


def with_drift(data: dict[str, Any], report: ReadReport, others: Sequence[ReadReport], how: str) -> dict[str, Any]:
    """Return a report with its drifted values under ``drift`` and as findings of the affected tests.

    Args:
        data: the report to extend.
        report: the same report, normalised.
        others: earlier reports, normalised.
        how: "finding"; or "fail", which changes the verdict of each drifted test to FAIL and makes its node a culprit.
    """
    flagged = [item for item in drift(report, others) if item["flags"]]
    drifted = [{key: item[key] for key in ("subject", "name", "nodes", "flags")} for item in flagged]
    words = {item["name"]: "; ".join(item["flags"]) for item in flagged if item["subject"] == "test"}
    failing = [item for item in flagged if how == "fail" and _counts(data, item)]
    failed = {item["name"] for item in failing if item["subject"] == "test"}
    tests = [
        _with_finding(test, words[test["name"]], fails=test["name"] in failed) if test["name"] in words else test
        for test in data["tests"]
    ]
    found = {**data, "tests": tests, "drift": drifted}
    if not failing:
        return found
    first = failing[0]
    if data["verdict"] != FAIL:
        found |= {"verdict": FAIL, "reason": f"{_WORD}: {first['name']}: {first['flags'][0]}", "busy_allowed": False}
    blamed = {item["nodes"][0]: item for item in reversed(failing) if len(item["nodes"]) == 1}
    known = {node for culprit in data.get("culprits", []) for node in culprit["nodes"]}
    fresh = [
        {
            "kind": "node",
            "nodes": [node],
            "reason": f"{_WORD}: {item['flags'][0]}",
            "tests": [item["name"]] if item["subject"] == "test" else [],
            "rail": "",
        }
        for node, item in sorted(blamed.items())
        if node not in known
    ]
    return found | ({"culprits": [*data.get("culprits", []), *fresh]} if fresh else {})


def _counts(data: dict[str, Any], item: Compared) -> bool:
    if item["subject"] == "node":
        return True
    stage = next((stage_of(test) for test in data["tests"] if test["name"] == item["name"]), None)
    return stage is not None and stage.counts is not Counts.WHILE_SEARCHING


def _with_finding(test: dict[str, Any], words: str, *, fails: bool) -> dict[str, Any]:
    found = {**test, "findings": [*test["findings"], f"{_WORD}: {words}"]}
    if fails and test["verdict"] == "PASS":
        found |= {"verdict": FAIL, "reason": f"{_WORD}: {words}; {test['reason']}"}
    return found
