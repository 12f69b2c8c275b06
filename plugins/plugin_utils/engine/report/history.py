# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""Compare a validation with earlier ones: each test with its history, each node with its history and the fleet.

A value has drifted if it is below the median by more than the deviation from median_and_tolerance.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Any

from ..validation.bandwidth_curve import LEAST, median_and_tolerance
from .report_reader import COLLECTIVE, everyone, faulty_nodes
from .tested_systems import changed_facts

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from .report_types import Compared, NodeFigure, ReadReport, ReadTest

MINIMUM = 4
_PAIR = 2


@dataclass(frozen=True, order=True)
class Key:
    """The properties that all values of a series have in common.

    Attributes:
        subject: "test", or "node" for the median of a node over all its pairs.
        who: the nodes that took part, sorted.
        stage: node, pair or cluster.
        collective: such as all_reduce.
        hardware: name of the profile.
        backend: nccl or mpi.
        size: bytes of the largest message.
    """

    subject: str
    who: tuple[str, ...]
    stage: str
    collective: str
    hardware: str
    backend: str
    size: int

    @property
    def peers(self) -> tuple[str, int, str, str, str, str, int]:
        """The properties that values of different nodes must have in common to be compared."""
        return (self.subject, len(self.who), self.stage, self.collective, self.hardware, self.backend, self.size)


@dataclass(frozen=True)
class Point:
    """A measured value in a report.

    Attributes:
        key: its series.
        name: name of the test or of the node.
        started: start of the validation, ISO 8601.
        busbw: GB/s.
        verdict: PASS, FAIL or INCONCLUSIVE.
        software: versions of driver and NCCL; empty if unknown.
    """

    key: Key
    name: str
    started: str
    busbw: float
    verdict: str
    software: tuple[str, str]


def points(report: ReadReport) -> list[Point]:
    """Return the values of a report: one per measured test, and one per node, which summarizes its pairs."""
    found = []
    for test in report["tests"]:
        if test["measured_busbw"] is not None and test["at_size"] is not None:
            key = _key(report, test, "test", tuple(sorted(everyone(test))), test["at_size"])
            found.append(
                Point(key, test["name"], report["started"], test["measured_busbw"], test["verdict"], _software(test))
            )
    return found + _of_nodes(report, found)


def _key(report: ReadReport, test: ReadTest, subject: str, who: tuple[str, ...], size: int) -> Key:
    return Key(subject, who, test["stage"], test["collective"], test["hardware"], report["backend"], size)


def _software(test: ReadTest) -> tuple[str, str]:
    versions = [run["nccl_version"] for run in test["runs"] if run["nccl_version"]]
    return test["environment"].get("NVIDIA driver", ""), versions[0] if versions else ""


def _of_nodes(report: ReadReport, tests: list[Point]) -> list[Point]:
    """Return the median of each node over its pairs."""
    pairs: dict[Key, list[Point]] = {}
    for point in tests:
        key = point.key
        if len(key.who) == _PAIR:
            for node in key.who:
                own = Key("node", (node,), key.stage, key.collective, key.hardware, key.backend, key.size)
                pairs.setdefault(own, []).append(point)
    return [
        Point(
            key,
            key.who[0],
            report["started"],
            median([point.busbw for point in members]),
            "PASS" if any(point.verdict == "PASS" for point in members) else members[0].verdict,
            members[0].software,
        )
        for key, members in pairs.items()
        if len(members) > 1
    ]


def node_figures(report: ReadReport) -> list[NodeFigure]:
    """Return the verdict and the medians (GB/s, or None) of each node, stage and collective, except for checks.

    The verdict is PASS if the node passed with any partners; for repeats with the same partners, the worst verdict
    counts. A failed test of several nodes counts only for the culprits.
    """
    groups: dict[tuple[str, str, str], list[ReadTest]] = {}
    faulty = faulty_nodes(report)
    for test in report["tests"]:
        members = everyone(test) if test["kind"] == COLLECTIVE else []
        together = test["verdict"] == "FAIL" and len(members) > 1
        for node in members:
            counted = _unproven(test) if together and node not in faulty else test
            groups.setdefault((node, test["stage"], test["collective"]), []).append(counted)
    found: list[NodeFigure] = []
    for (node, stage, collective), tests in sorted(groups.items()):
        by_partners: dict[tuple[str, ...], list[str]] = {}
        for test in tests:
            by_partners.setdefault(tuple(sorted(everyone(test))), []).append(test["verdict"])
        verdicts = {_worst(repeats) for repeats in by_partners.values()}
        verdict = next(word for word in ("PASS", "FAIL", "INCONCLUSIVE") if word in verdicts)
        found.append(
            {
                "node": node,
                "stage": stage,
                "collective": collective,
                "verdict": verdict,
                "busbw": _median([test["measured_busbw"] for test in tests]),
                "floor": _median([test["floor"] for test in tests]),
                "ceiling": _median([test["ceiling"] for test in tests]),
            }
        )
    return found


def _unproven(test: ReadTest) -> ReadTest:
    """Return the test as INCONCLUSIVE and without values, for nodes that it neither clears nor blames."""
    return {**test, "verdict": "INCONCLUSIVE", "measured_busbw": None, "floor": None, "ceiling": None}


def _median(figures: list[float | None]) -> float | None:
    """Return the median of the known values."""
    values = [figure for figure in figures if figure is not None]
    return median(values) if values else None


def _worst(verdicts: list[str]) -> str:
    return next(word for word in ("FAIL", "INCONCLUSIVE", "PASS") if word in verdicts)


def series(reports: Sequence[ReadReport]) -> dict[Key, list[Point]]:
    """Return the values of several reports by series, oldest first."""
    found: dict[Key, list[Point]] = {}
    for report in sorted(reports, key=lambda item: item["started"]):
        for point in points(report):
            found.setdefault(point.key, []).append(point)
    return found


def drift(report: ReadReport, others: Sequence[ReadReport]) -> list[Compared]:
    """Return the comparison of each value of a report with its history and with the fleet.

    The history consists of passes of the same test on the same nodes, with any software. The fleet consists of the
    latest values in all reports from the same kind of test, with the same number of nodes, hardware, driver and NCCL.
    Both require at least MINIMUM values.

    Args:
        report: a normalised report.
        others: other reports; only those of the same cluster that started earlier are used.
    """
    earlier = [
        other for other in others if other["cluster"] == report["cluster"] and other["started"] < report["started"]
    ]
    past = series(earlier)
    now = points(report)
    fleet: dict[tuple[Any, ...], dict[Key, float]] = {}
    for key, members in past.items():
        fleet.setdefault((key.peers, members[-1].software), {})[key] = members[-1].busbw
    for point in now:
        fleet.setdefault((point.key.peers, point.software), {})[point.key] = point.busbw
    groups = {peers: _Group(list(members.values())) for peers, members in fleet.items()}
    return [_compared(point, past.get(point.key, []), groups[point.key.peers, point.software]) for point in now]


class _Group:
    """Reference values: their median, and the tolerated deviation below it, in GB/s."""

    def __init__(self, values: list[float]) -> None:
        self.count = len(values)
        self.median: float | None = None
        self.tolerance = 0.0
        if len(values) >= MINIMUM:
            self.median, self.tolerance = median_and_tolerance(values)

    def change(self, busbw: float) -> float | None:
        """Return the relative difference between a value and the median."""
        return None if self.median is None else _change(busbw, self.median)

    def flags(self, busbw: float, whose: str) -> list[str]:
        """Return a list with one message if a value has drifted, otherwise an empty list."""
        if self.median is None or self.median - busbw <= self.tolerance:
            return []
        share = 100 * (self.median - busbw) / self.median
        return [f"{busbw:.4g} GB/s is {share:.1f} % below {whose.format(count=self.count)}, {self.median:.4g}"]


def _compared(point: Point, past: list[Point], fleet: _Group) -> Compared:
    own = _Group([item.busbw for item in past if item.verdict == "PASS"])
    return {
        "subject": point.key.subject,
        "name": point.name,
        "nodes": list(point.key.who),
        "stage": point.key.stage,
        "collective": point.key.collective,
        "size": point.key.size,
        "busbw": point.busbw,
        "verdict": point.verdict,
        "past": [{"started": item.started, "busbw": item.busbw, "verdict": item.verdict} for item in past],
        "last_change": _change(point.busbw, past[-1].busbw) if past else None,
        "own_median": own.median,
        "own_change": own.change(point.busbw),
        "fleet_median": fleet.median,
        "fleet_change": fleet.change(point.busbw),
        "flags": own.flags(point.busbw, "its median of {count} earlier passes")
        + fleet.flags(point.busbw, "the median of {count} comparable results"),
    }


def _change(value: float, before: float) -> float | None:
    """Return the relative difference between a value and an earlier one."""
    return (value - before) / before if before else None


def _flag(change: float | None) -> str:
    """Return slower or faster if a relative difference exceeds 5 %, otherwise an empty text."""
    return "" if change is None or abs(change) <= LEAST else ("slower" if change < 0 else "faster")


def compare(first: ReadReport, second: ReadReport) -> dict[str, Any]:
    """Return the differences between two reports.

    Returns:
        ``tests``: tests in both reports, each with ``name``, ``nodes``, ``stage``, ``collective``, ``size``, ``first``
        and ``second`` (GB/s), ``change`` (relative to the first), ``verdicts`` (per run) and ``flag`` (slower or faster
        if the change exceeds 5 %, otherwise empty). ``other_nodes``: tests with the same name on different nodes, each
        with ``name`` and, for both reports, ``nodes``, ``busbw`` (GB/s or None) and ``verdicts``. ``only_first`` and
        ``only_second``: names of tests in only one report. ``nodes``: nodes in both reports. ``environment``:
        environment differences, each with ``term``, ``first`` and ``second``.
    """
    one, two = ({_same(test): test for test in report["tests"]} for report in (first, second))
    both = []
    for key, test in two.items():
        if key not in one:
            continue
        old = one[key]
        change = None
        if old["measured_busbw"] and test["measured_busbw"] is not None and old["at_size"] == test["at_size"]:
            change = _change(test["measured_busbw"], old["measured_busbw"])
        both.append(
            {
                "name": test["name"],
                "stage": test["stage"],
                "collective": test["collective"],
                "nodes": everyone(test),
                "size": test["at_size"],
                "first": old["measured_busbw"],
                "second": test["measured_busbw"],
                "change": change,
                "verdicts": [old["verdict"], test["verdict"]],
                "flag": _flag(change),
            }
        )
    alone = [test for key, test in one.items() if key not in two], [test for key, test in two.items() if key not in one]
    moved = _same_name(*alone)
    names = {first["name"] for first, _ in moved}
    return {
        "tests": both,
        "other_nodes": [
            {
                "name": pair[0]["name"],
                "nodes": [everyone(test) for test in pair],
                "busbw": [test["measured_busbw"] for test in pair],
                "verdicts": [test["verdict"] for test in pair],
            }
            for pair in moved
        ],
        "only_first": [test["name"] for test in alone[0] if test["name"] not in names],
        "only_second": [test["name"] for test in alone[1] if test["name"] not in names],
        "nodes": [first["nodes"], second["nodes"]],
        "environment": changed_facts(first, second),
    }


def _same_name(first: list[ReadTest], second: list[ReadTest]) -> list[tuple[ReadTest, ReadTest]]:
    """Return the pairs of tests with the same name on different nodes."""
    by_name = {(test["name"], test["stage"]): test for test in second}
    found = [(test, by_name.get((test["name"], test["stage"]))) for test in first]
    return [(one, two) for one, two in found if two is not None and set(everyone(one)) != set(everyone(two))]


def _same(test: ReadTest) -> tuple[Any, ...]:
    return (test["stage"], test["kind"], test["collective"], test["hardware"], tuple(sorted(everyone(test))))


def last_results(reports: Sequence[ReadReport], hardware: Mapping[str, str], cluster: str) -> dict[str, bool]:
    """Return whether each judged node passed in its newest report.

    A node has passed if it took part in a passed test and is not a culprit. A node whose tests all failed has not
    passed, even if another node is the culprit.

    Args:
        reports: normalised reports, the oldest first.
        hardware: node to name of its profile; tests of other hardware are ignored.
        cluster: name of the cluster; reports of other clusters are ignored.
    """
    found: dict[str, bool] = {}
    for report in reports:
        if report["cluster"] != cluster:
            continue
        judged: dict[str, bool] = {}
        for test in report["tests"]:
            if test["kind"] != COLLECTIVE or test["verdict"] not in {"PASS", "FAIL"}:
                continue
            for node in everyone(test):
                if test["hardware"] == (hardware.get(node) or ""):
                    judged[node] = judged.get(node, False) or test["verdict"] == "PASS"
        guilty = faulty_nodes(report)
        found |= {node: good and node not in guilty for node, good in judged.items()}
        found |= dict.fromkeys(guilty, False)
    return found


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
        change = _change(second, first) if first and second and sizes[0] == sizes[1] else None
        found.append({"test": name, "nodes": nodes, "change": change, "flag": _flag(change), "sides": sides})
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
