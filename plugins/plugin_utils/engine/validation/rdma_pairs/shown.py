# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""What a report shows of the RDMA writes: a row for each way, and the slowest way out of each node."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..section import finite, number_cell, rows_of, text_cell

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..section import Metric, Section

__all__ = ["rdma_pairs_figures", "rdma_pairs_metrics", "shown_rdma_pairs"]

_MOST_READ = 65_536
_MOST_ROWS = 512
_BITS = 8


def rdma_pairs_figures(value: object, plain: Callable[[object], str]) -> dict[str, Any] | None:
    """Return the figures of a test."""
    if not isinstance(value, dict):
        return None
    return {
        "gbps_floor": finite(value.get("gbps_floor")),
        "rows": [
            {
                **{key: plain(row.get(key) or "") for key in ("rail", "client", "server", "said")},
                "gbps": finite(row.get("gbps")),
            }
            for row in rows_of(value, _MOST_READ)
        ],
    }


def shown_rdma_pairs(figures: dict[str, Any]) -> Section:
    """Return the table of all ways, slowest first."""
    floor = figures["gbps_floor"]
    rows = sorted(figures["rows"], key=lambda row: row["gbps"] or 0.0)[:_MOST_ROWS]
    return {
        "charts": [],
        "table": {
            "columns": [
                ("Rail", "text"),
                ("From", "text"),
                ("To", "text"),
                ("Gb/s", "number"),
                ("", "long"),
            ],
            "rows": [
                [
                    text_cell(row["rail"]),
                    text_cell(row["client"]),
                    text_cell(row["server"]),
                    number_cell(row["gbps"]),
                    text_cell(row["said"]),
                ]
                for row in rows
            ],
        },
        "note": "RDMA writes by perftest, one rail and one direction at a time.",
        "facts": [("At least", f"{floor:g} Gb/s on each rail" if floor else "")],
    }


def rdma_pairs_metrics(figures: dict[str, Any]) -> list[Metric]:
    """Return the slowest way out of each node over each rail."""
    lowest: dict[tuple[str, str], float] = {}
    for row in figures["rows"]:
        if row["gbps"] is not None:
            key = (row["client"], row["rail"])
            lowest[key] = min(row["gbps"], lowest.get(key, row["gbps"]))
    words = "What a node sends at the least over a rail to one of its neighbours."
    return [
        {
            "name": "rdma_pairs_bytes_per_second",
            "help": words,
            "labels": {"node": node, "rail": rail},
            "value": gbps * 1e9 / _BITS,
        }
        for (node, rail), gbps in lowest.items()
    ]
