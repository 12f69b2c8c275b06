# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""Reads what a report says of the checks of single nodes: bandwidth matrices and results of a diagnosis."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..validation.section import text_cell

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..validation.section import Cell, Table

__all__ = ["COLLECTIVE", "matrices_of", "results_of", "results_table"]

COLLECTIVE = "collective"
_MOST_LABELS = 128
_MOST_MATRICES = 64
_MOST_RESULTS = 2000
_ORDER = {"fail": 0, "warn": 2, "skip": 3, "pass": 4}
_STRANGE = 1
_BADGES = {"fail": "fail", "warn": "inconclusive", "skip": "skip", "pass": "pass"}


def _cell(value: object) -> float | None:
    ok = isinstance(value, (int, float)) and not isinstance(value, bool) and -1e308 < value < 1e308  # noqa: PLR2004
    return float(value) if ok and isinstance(value, (int, float)) else None


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def matrices_of(value: object, plain: Callable[[object], str]) -> list[dict[str, Any]]:
    """Return the matrices of a test, less those that are none; texts as `plain` makes them.

    Returns:
        title, unit, what, p2p, rows and columns (labels), values (None where nothing was measured), odd (row and column
        of slow cells, within the matrix).
    """
    found = []
    for item in _list(value)[:_MOST_MATRICES]:
        own = item if isinstance(item, dict) else {}
        rows, columns = ([plain(label) for label in _list(own.get(key))] for key in ("rows", "columns"))
        values = [[_cell(cell) for cell in _list(line)] for line in _list(own.get("values"))]
        fits = len(values) == len(rows) and all(len(line) == len(columns) for line in values)
        if not (fits and 0 < len(rows) <= _MOST_LABELS and 0 < len(columns) <= _MOST_LABELS):
            continue
        about = {key: plain(own.get(key) or "") for key in ("title", "unit", "what")}
        odd = [_place(place, rows, columns) for place in _list(own.get("odd"))]
        found.append(
            {
                **about,
                "p2p": own.get("p2p") is True,
                "rows": rows,
                "columns": columns,
                "values": values,
                "odd": [place for place in odd if place is not None],
            }
        )
    return found


def _place(value: object, rows: list[str], columns: list[str]) -> tuple[int, int] | None:
    """Return row and column of a cell, None when the matrix has no such cell."""
    pair = [item for item in _list(value) if isinstance(item, int) and not isinstance(item, bool)]
    if len(pair) != len(("row", "column")) or not (0 <= pair[0] < len(rows) and 0 <= pair[1] < len(columns)):
        return None
    return pair[0], pair[1]


def results_of(value: object, plain: Callable[[object], str]) -> list[dict[str, Any]]:
    """Return the results of a diagnosis: category, test, unit, ids (texts), status and messages."""
    found = []
    for item in _list(value)[:_MOST_RESULTS]:
        own = item if isinstance(item, dict) else {}
        about = {key: plain(own.get(key) or "") for key in ("category", "test", "unit", "status")}
        ids = [plain(one) for one in _list(own.get("ids"))]
        found.append({**about, "ids": ids, "messages": [plain(words) for words in _list(own.get("messages"))]})
    return found


def results_table(results: list[dict[str, Any]]) -> Table:
    """Return a line for each test of a diagnosis, status and message, failures first; GPUs that agree share a line."""
    found: dict[tuple[str, ...], dict[str, Any]] = {}
    for result in results:
        words = "; ".join(result["messages"])
        key = (result["category"], result["test"], result["unit"], result["status"], words)
        row = found.setdefault(key, {**result, "words": words, "ids": []})
        row["ids"] = row["ids"] + result["ids"]
    rows = sorted(found.values(), key=lambda row: _ORDER.get(row["status"], _STRANGE))
    return {
        "columns": [("Status", "text"), ("Test", "text"), ("Of", "text"), ("Category", "text"), ("Message", "long")],
        "rows": [_cells(number, row) for number, row in enumerate(rows, start=1)],
    }


def _cells(number: int, row: dict[str, Any]) -> list[Cell]:
    return [
        {"text": row["status"], "value": number, "badge": _BADGES.get(row["status"], "inconclusive")},
        text_cell(row["test"]),
        text_cell(f"{row['unit']} {', '.join(row['ids'])}".strip() or "node"),
        text_cell(row["category"]),
        text_cell(row["words"]),
    ]
