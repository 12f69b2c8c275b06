# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""Read the results of checks of single nodes from a report: bandwidth matrices and diagnoses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..validation.section import text_cell

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..validation.section import Cell, Table
    from .model import Matrix, Result

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


def matrices_of(value: object, plain: Callable[[object], str]) -> list[Matrix]:
    """Return the valid matrices of a test; texts are converted by `plain`.

    Returns:
        title, unit, what, p2p, rows and columns (labels), values (None if not measured), odd (row and column of slow
        cells, within the matrix).
    """
    found: list[Matrix] = []
    for item in _list(value)[:_MOST_MATRICES]:
        own = item if isinstance(item, dict) else {}
        rows, columns = ([plain(label) for label in _list(own.get(key))] for key in ("rows", "columns"))
        values = [[_cell(cell) for cell in _list(line)] for line in _list(own.get("values"))]
        fits = len(values) == len(rows) and all(len(line) == len(columns) for line in values)
        if not (fits and 0 < len(rows) <= _MOST_LABELS and 0 < len(columns) <= _MOST_LABELS):
            continue
        odd = [_place(place, rows, columns) for place in _list(own.get("odd"))]
        found.append(
            {
                "title": plain(own.get("title") or ""),
                "unit": plain(own.get("unit") or ""),
                "what": plain(own.get("what") or ""),
                "p2p": own.get("p2p") is True,
                "rows": rows,
                "columns": columns,
                "values": values,
                "odd": [place for place in odd if place is not None],
            }
        )
    return found


def _place(value: object, rows: list[str], columns: list[str]) -> tuple[int, int] | None:
    """Return row and column of a cell, None if the matrix has no such cell."""
    pair = [item for item in _list(value) if isinstance(item, int) and not isinstance(item, bool)]
    if len(pair) != len(("row", "column")) or not (0 <= pair[0] < len(rows) and 0 <= pair[1] < len(columns)):
        return None
    return pair[0], pair[1]


def results_of(value: object, plain: Callable[[object], str]) -> list[Result]:
    """Return the results of a diagnosis: category, test, unit, ids (texts), status and messages."""
    found: list[Result] = []
    for item in _list(value)[:_MOST_RESULTS]:
        own = item if isinstance(item, dict) else {}
        found.append(
            {
                "category": plain(own.get("category") or ""),
                "test": plain(own.get("test") or ""),
                "unit": plain(own.get("unit") or ""),
                "status": plain(own.get("status") or ""),
                "ids": [plain(one) for one in _list(own.get("ids"))],
                "messages": [plain(words) for words in _list(own.get("messages"))],
            }
        )
    return found


def results_table(results: list[Result]) -> Table:
    """Return a row per test, status and message of a diagnosis, failures first; GPUs with equal results share one."""
    alike: dict[tuple[str, str, str, str, str], list[str]] = {}
    for result in results:
        words = "; ".join(result["messages"])
        key = (result["status"], result["test"], result["unit"], result["category"], words)
        alike.setdefault(key, []).extend(result["ids"])
    rows = sorted(alike.items(), key=lambda row: _ORDER.get(row[0][0], _STRANGE))
    return {
        "columns": [("Status", "text"), ("Test", "text"), ("Of", "text"), ("Category", "text"), ("Message", "long")],
        "rows": [_cells(number, *key, ids) for number, (key, ids) in enumerate(rows, start=1)],
    }


def _cells(  # noqa: PLR0913, PLR0917 - what a line tells
    number: int, status: str, test: str, unit: str, category: str, words: str, ids: list[str]
) -> list[Cell]:
    return [
        {"text": status, "value": number, "badge": _BADGES.get(status, "inconclusive")},
        text_cell(test),
        text_cell(f"{unit} {', '.join(ids)}".strip() or "node"),
        text_cell(category),
        text_cell(words),
    ]
