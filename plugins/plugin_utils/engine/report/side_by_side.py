# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""Compare the reports of two clusters without shared nodes, by test and number of nodes."""

from __future__ import annotations

from collections import Counter
from statistics import median
from typing import TYPE_CHECKING, Any

from ..validation.bandwidth_curve import LEAST
from .report_reader import everyone

if TYPE_CHECKING:
    from .report_types import ReadReport, ReadTest


def side_by_side(reports: tuple[ReadReport, ReadReport]) -> list[dict[str, Any]]:
    """Return the tests of two reports by stage, collective and number of nodes, in the order of the first.

    Each has ``test``, ``nodes`` (of one test), ``change`` (between the medians, relative to the first; None if the
    message sizes differ or a value is missing), ``flag`` (slower or faster if the change exceeds 5 %, otherwise empty)
    and ``sides``: for each report None, or ``tests`` (number), ``verdicts`` (number of tests by verdict), ``median``
    and ``lowest`` (GB/s or None).
    """
    groups: dict[tuple[str, int], tuple[list[ReadTest], list[ReadTest]]] = {}
    for place, report in enumerate(reports):
        for test in report["tests"]:
            name = " ".join(filter(None, (test["stage"], test["collective"])))
            groups.setdefault((name, len(everyone(test))), ([], []))[place].append(test)
    found = []
    for (name, nodes), both in groups.items():
        sides = [_side(tests) for tests in both]
        sizes = [{test["at_size"] for test in tests} for tests in both]
        first, second = (side["median"] if side else None for side in sides)
        change = (second - first) / first if first and second and sizes[0] == sizes[1] else None
        flag = "" if change is None or abs(change) <= LEAST else ("slower" if change < 0 else "faster")
        found.append({"test": name, "nodes": nodes, "change": change, "flag": flag, "sides": sides})
    return found


def _side(tests: list[ReadTest]) -> dict[str, Any] | None:
    if not tests:
        return None
    figures = [test["measured_busbw"] for test in tests if test["measured_busbw"] is not None]
    return {
        "tests": len(tests),
        "verdicts": dict(Counter(test["verdict"] for test in tests)),
        "median": median(figures) if figures else None,
        "lowest": min(figures) if figures else None,
    }
