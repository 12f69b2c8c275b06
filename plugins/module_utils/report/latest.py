# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""Finds the last figures of each node over several validations: one of a few nodes says nothing about the others."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

from .checks import COLLECTIVE
from .data import everyone
from .history import node_figures
from .storage import STORAGE
from .training import TRAINING

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

__all__ = ["distinct", "last_checks", "last_figures", "last_storage", "last_validated", "past", "seconds"]

_Row = dict[str, Any]


def seconds(started: str) -> float | None:
    """Return the Unix time (s) of an ISO 8601 text, None when it is none."""
    try:
        return datetime.fromisoformat(started).timestamp()
    except ValueError:
        return None


def distinct(tests: list[_Row]) -> list[_Row]:
    """Return the last test of each name, stage and collective."""
    return list({(test["name"], test["stage"], test["collective"]): test for test in tests}.values())


def past(report: _Row, earlier: Iterable[_Row]) -> list[_Row]:
    """Return the reports of the same cluster, the oldest first, that report last.

    Args:
        report: as `report_data.normalised` gives it.
        earlier: older ones, the oldest first.
    """
    return [*(other for other in earlier if other["cluster"] == report["cluster"]), report]


def last_figures(reports: Sequence[_Row], nodes: Collection[str] | None = None) -> list[_Row]:
    """Return what the last validation that tried it says of each node, stage and collective.

    Args:
        reports: as `report_data.normalised` gives them, the oldest first.
        nodes: those that the cluster has; what is said of others is left out. None for all.

    Returns:
        What `history.node_figures` returns, each with ``started``, sorted by node, stage and collective.
    """
    return _last(reports, node_figures, ("node", "stage", "collective"), nodes)


def last_checks(reports: Sequence[_Row], nodes: Collection[str] | None = None) -> list[_Row]:
    """Return the last check of each kind of each node.

    Returns:
        ``node``, ``check``, ``hardware``, ``verdict``, ``lowest_gbs`` (GB/s, or None) and ``started``, sorted.
    """
    return _last(reports, _checks, ("node", "check", "hardware"), nodes)


def last_storage(reports: Sequence[_Row], nodes: Collection[str] | None = None) -> list[_Row]:
    """Return what was last found of each shared tree on each node.

    Returns:
        What `report_storage.storage_of` says of a node, each with ``path`` and ``started``, sorted.
    """
    return _last(reports, _storage, ("node", "path"), nodes)


def last_validated(reports: Sequence[_Row], nodes: Collection[str] | None = None) -> dict[str, float]:
    """Return when each node was last judged, as Unix time (s); a validation that was inconclusive about it is none."""
    found: dict[str, float] = {}
    for report in reports:
        began = seconds(report["started"])
        judged = [test for test in report["tests"] if test["verdict"] in {"PASS", "FAIL"}] if began is not None else []
        found |= dict.fromkeys((node for test in judged for node in everyone(test)), began or 0.0)
    return {node: found[node] for node in sorted(found) if nodes is None or node in nodes}


def _last(
    reports: Sequence[_Row],
    rows: Callable[[_Row], list[_Row]],
    key: tuple[str, ...],
    nodes: Collection[str] | None,
) -> list[_Row]:
    found = {
        tuple(row[part] for part in key): row | {"started": report["started"]}
        for report in reports
        for row in rows(report)
        if nodes is None or row["node"] in nodes
    }
    return [row for _key, row in sorted(found.items(), key=lambda item: item[0])]


def _checks(report: _Row) -> list[_Row]:
    return [
        {"node": node, "check": test["kind"], **{key: test[key] for key in ("hardware", "verdict", "lowest_gbs")}}
        for test in distinct(report["tests"])
        if test["kind"] not in {COLLECTIVE, STORAGE, TRAINING}
        for node in everyone(test)
    ]


def _storage(report: _Row) -> list[_Row]:
    return [
        row | {"path": test[STORAGE]["path"]}
        for test in distinct(report["tests"])
        if test[STORAGE]
        for row in test[STORAGE]["nodes"]
    ]
