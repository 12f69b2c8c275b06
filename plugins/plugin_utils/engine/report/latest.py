# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""Finds the last figures of each node over several validations: one of a few nodes says nothing about the others."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from ..validation.registry import stage_of
from .data import everyone
from .history import node_figures
from .model import NodeFigure

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from ..validation.section import Metric
    from .model import ReadReport, ReadTest

__all__ = ["LastFigure", "distinct", "last_figures", "last_metrics", "last_validated", "past", "seconds"]


class LastFigure(NodeFigure):
    """The last figure of a node, and when the validation began that it is of."""

    started: str


def seconds(started: str) -> float | None:
    """Return the Unix time (s) of an ISO 8601 text, None when it is none."""
    try:
        return datetime.fromisoformat(started).timestamp()
    except ValueError:
        return None


def distinct(tests: list[ReadTest]) -> list[ReadTest]:
    """Return the last test of each name, stage and collective."""
    return list({(test["name"], test["stage"], test["collective"]): test for test in tests}.values())


def past(report: ReadReport, earlier: Iterable[ReadReport]) -> list[ReadReport]:
    """Return the reports of the same cluster, the oldest first, that report last.

    Args:
        report: as `report_data.normalised` gives it.
        earlier: older ones, the oldest first.
    """
    return [*(other for other in earlier if other["cluster"] == report["cluster"]), report]


def last_figures(reports: Sequence[ReadReport], nodes: Collection[str] | None = None) -> list[LastFigure]:
    """Return what the last validation that tried it says of each node, stage and collective.

    Args:
        reports: as `report_data.normalised` gives them, the oldest first.
        nodes: those that the cluster has; what is said of others is left out. None for all.
    """
    found: dict[tuple[str, str, str], LastFigure] = {
        (row["node"], row["stage"], row["collective"]): {**row, "started": report["started"]}
        for report in reports
        for row in node_figures(report)
        if nodes is None or row["node"] in nodes
    }
    return [row for _key, row in sorted(found.items(), key=lambda item: item[0])]


def last_metrics(reports: Sequence[ReadReport], nodes: Collection[str] | None = None) -> list[Metric]:
    """Return what the stages tell Prometheus: of each node the last that is known, of all else the last report.

    Args:
        reports: as `report_data.normalised` gives them, the oldest first.
        nodes: those that the cluster has; None for all.
    """
    found: dict[tuple[str, frozenset[tuple[str, str]]], Metric] = {}
    for number, report in enumerate(reports, start=1):
        for test in distinct(report["tests"]):
            stage = stage_of(test)
            for metric in stage.metrics(test) if stage else []:
                node = metric["labels"].get("node")
                if number == len(reports) if node is None else nodes is None or node in nodes:
                    found[metric["name"], frozenset(metric["labels"].items())] = metric
    return sorted(found.values(), key=lambda metric: (metric["name"], metric["labels"].get("node", "")))


def last_validated(reports: Sequence[ReadReport], nodes: Collection[str] | None = None) -> dict[str, float]:
    """Return when each node was last judged, as Unix time (s); a validation that was inconclusive about it is none."""
    found: dict[str, float] = {}
    for report in reports:
        began = seconds(report["started"])
        judged = [test for test in report["tests"] if test["verdict"] in {"PASS", "FAIL"}] if began is not None else []
        found |= dict.fromkeys((node for test in judged for node in everyone(test)), began or 0.0)
    return {node: found[node] for node in sorted(found) if nodes is None or node in nodes}
