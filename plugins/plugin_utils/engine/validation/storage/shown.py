# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""Reads what a report says of the shared tree, and shows it: bars, a row and metrics for each node."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

from ..section import CODE_WORDS, CODES, Cell, Metric, Section, Series, finite, number_cell, text_cell
from .found import WAYS

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["StorageFigures", "StorageRow", "shown_storage", "storage_figures", "storage_metrics"]

_MB = 1e6
_MOST_BARS = 40
_ORDER = {"FAIL": 0, "INCONCLUSIVE": 1, "PASS": 2}
_MODES = {"direct": "past the node's own cache", "fsync": "until the server had it"}


class StorageRow(TypedDict):
    """What was found on a node; rates and floors in bytes/s."""

    node: str
    verdict: str
    filesystem: str
    reason: str
    write: float | None
    write_floor: float | None
    read: float | None
    read_floor: float | None


class StorageFigures(TypedDict):
    """The shared tree of a test."""

    path: str
    mode: str
    nodes: list[StorageRow]


def storage_figures(value: object, plain: Callable[[object], str]) -> StorageFigures | None:
    """Return the shared tree of a test, None for a test that is about none; texts as `plain` makes them."""
    if not isinstance(value, dict):
        return None
    nodes = value.get("nodes")
    rows = [item for item in nodes if isinstance(item, dict)] if isinstance(nodes, list) else []
    return {
        "path": plain(value.get("path") or ""),
        "mode": plain(value.get("mode") or ""),
        "nodes": [
            {
                "node": plain(row.get("node") or ""),
                "filesystem": plain(row.get("filesystem") or ""),
                "reason": plain(row.get("reason") or ""),
                "verdict": row["verdict"] if row.get("verdict") in _ORDER else "INCONCLUSIVE",
                "write": finite(row.get("write")),
                "write_floor": finite(row.get("write_floor")),
                "read": finite(row.get("read")),
                "read_floor": finite(row.get("read_floor")),
            }
            for row in rows
        ],
    }


def shown_storage(figures: StorageFigures) -> Section:
    """Return the bars of what each node writes and reads, and the table of them, the worst first."""
    slowest = _slowest(figures["nodes"])
    series = [_series("write", slowest), _series("read", slowest)]
    labels = [row["node"] for row in slowest]
    return {
        "charts": [{"kind": "bars", "title": "", "unit": "MB/s", "labels": labels, "series": series, "sideways": True}]
        if slowest
        else [],
        "table": {
            "columns": [
                ("Verdict", "text"),
                ("Node", "text"),
                ("Write, MB/s", "number"),
                ("Floor", "number"),
                ("Read, MB/s", "number"),
                ("Floor", "number"),
                ("Mounted", "text"),
                ("Reason", "long"),
            ],
            "rows": [_cells(row) for row in sorted(figures["nodes"], key=lambda row: _ORDER[row["verdict"]])],
        },
        "note": "",
        "facts": [("Shared tree", figures["path"]), ("Measured", _MODES.get(figures["mode"], ""))],
    }


def _rate(row: StorageRow, way: str) -> float | None:
    return row["write"] if way == "write" else row["read"]


def _floor(row: StorageRow, way: str) -> float | None:
    return row["write_floor"] if way == "write" else row["read_floor"]


def _slowest(rows: list[StorageRow]) -> list[StorageRow]:
    """Return the rows that have a rate, of many the slowest."""
    rates = [(min((rate for way in WAYS if (rate := _rate(row, way)) is not None), default=None), row) for row in rows]
    return [row for _rate, row in sorted(((a, b) for a, b in rates if a is not None), key=lambda item: item[0])][
        :_MOST_BARS
    ]


def _series(way: str, rows: list[StorageRow]) -> Series:
    rates = [_rate(row, way) for row in rows]
    floors = sorted({floor for row in rows if (floor := _floor(row, way)) is not None})
    return {
        "name": way,
        "values": [None if rate is None else rate / _MB for rate in rates],
        "limits": [floor / _MB for floor in floors],
    }


def _cells(row: StorageRow) -> list[Cell]:
    return [
        text_cell(row["verdict"], row["verdict"].lower()),
        text_cell(row["node"]),
        *(number_cell(row[key], 1 / _MB) for key in ("write", "write_floor", "read", "read_floor")),
        text_cell(row["filesystem"]),
        text_cell(row["reason"]),
    ]


def storage_metrics(figures: StorageFigures) -> list[Metric]:
    """Return verdict, rates and floors of each node."""
    found: list[Metric] = []
    for row in figures["nodes"]:
        labels = {"path": figures["path"], "node": row["node"]}
        words = f"Whether a node shares the tree as it should: {CODE_WORDS}."
        found.append({"name": "storage_verdict", "help": words, "labels": labels, "value": CODES[row["verdict"]]})
        for way, did in (("write", "wrote to"), ("read", "read from")):
            words = f"What a node {did} the shared tree while all others did."
            name = f"storage_{way}_bytes_per_second"
            found.append({"name": name, "help": words, "labels": labels, "value": _rate(row, way)})
            words, name = f"What a node must {way} at least.", f"storage_{way}_floor_bytes_per_second"
            found.append({"name": name, "help": words, "labels": labels, "value": _floor(row, way)})
    return found
