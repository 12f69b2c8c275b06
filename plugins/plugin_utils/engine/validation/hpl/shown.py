# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""What a report shows of Linpack: a row for each system that was solved."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..section import finite, number_cell, rows_of, text_cell

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..section import Cell, Metric, Section

__all__ = ["hpl_figures", "hpl_metrics", "shown_hpl"]

_MOST_ROWS = 64


def hpl_figures(value: object, plain: Callable[[object], str]) -> dict[str, Any] | None:
    """Return the figures of a test."""
    if not isinstance(value, dict):
        return None
    return {
        "gflops_floor": finite(value.get("gflops_floor")),
        "ranks": finite(value.get("ranks")),
        "rows": [
            {
                **{key: plain(row.get(key) or "") for key in ("variant", "residual")},
                **{key: finite(row.get(key)) for key in ("n", "nb", "p", "q", "seconds", "gflops")},
                "passed": row.get("passed") if isinstance(row.get("passed"), bool) else None,
            }
            for row in rows_of(value, _MOST_ROWS)
        ],
    }


def shown_hpl(figures: dict[str, Any]) -> Section:
    """Return the table of the systems that were solved."""
    floor, ranks = figures["gflops_floor"], figures["ranks"]
    return {
        "charts": [],
        "table": {
            "columns": [
                ("Variant", "text"),
                ("n", "number"),
                ("NB", "number"),
                ("P", "number"),
                ("Q", "number"),
                ("Seconds", "number"),
                ("Gflop/s", "number"),
                ("Scaled residual", "text"),
            ],
            "rows": [_cells(row) for row in figures["rows"]],
        },
        "note": "One system of n equations, solved by P x Q ranks in blocks of NB; the residual must be below 16.",
        "facts": [
            ("Ranks", "" if ranks is None else f"{ranks:.0f}"),
            ("At least", f"{floor:g} Gflop/s per rank" if floor else ""),
        ],
    }


def hpl_metrics(figures: dict[str, Any]) -> list[Metric]:
    """Return the rate of the last system, and whether its solution is right."""
    row = figures["rows"][-1:]
    if not row:
        return []
    gflops, passed = row[0]["gflops"], row[0]["passed"]
    speed = None if gflops is None else gflops * 1e9
    return [
        {
            "name": "hpl_flops",
            "help": "Operations per second of Linpack on all nodes together.",
            "labels": {},
            "value": speed,
        },
        {
            "name": "hpl_solved",
            "help": "1 where the solution of Linpack is right, 0 where it is wrong.",
            "labels": {},
            "value": None if passed is None else float(passed),
        },
    ]


def _cells(row: dict[str, Any]) -> list[Cell]:
    badge = {True: "pass", False: "fail", None: "skip"}[row["passed"]]
    return [
        text_cell(row["variant"]),
        *(number_cell(row[key]) for key in ("n", "nb", "p", "q", "seconds", "gflops")),
        text_cell(row["residual"] or "not checked", badge),
    ]
