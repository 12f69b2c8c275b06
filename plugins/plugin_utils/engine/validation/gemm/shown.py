# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""What a report shows of the products of matrices: bars of each node's slowest GPU, and a table of all."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

from ..section import finite, number_cell, rows_of, text_cell

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..section import Cell, Metric, Section

__all__ = ["GemmFigures", "gemm_figures", "gemm_metrics", "shown_gemm"]

_MOST_READ = 65_536
_MOST_ROWS = 512
_MOST_BARS = 64
_GB = 1e9
_NOTE = (
    "All GPUs multiply the same matrices at once. Shares are of the median of like GPUs. A result that differs from "
    "that of its like, or from what it was before, is silent data corruption."
)


class GemmRow(TypedDict):
    """A device: TFLOP/s, its slowest batch, GB/s of its memory, and whether its results are wrong."""

    node: str
    device: int
    uuid: str
    kind: str
    tflops: float | None
    lowest_tflops: float | None
    memory_gbs: float | None
    median_share: float | None
    wrong: bool


class GemmFigures(TypedDict):
    """What was multiplied, the floors, and each device."""

    precision: str
    size: float | None
    tflops_floor: float | None
    memory_floor_gbs: float | None
    spread_limit: float | None
    rows: list[GemmRow]


def gemm_figures(value: object, plain: Callable[[object], str]) -> GemmFigures | None:
    """Return the figures of a test, None for a test that has none; texts as `plain` makes them."""
    if not isinstance(value, dict):
        return None
    return {
        "precision": plain(value.get("precision") or ""),
        "size": finite(value.get("size")),
        "tflops_floor": finite(value.get("tflops_floor")),
        "memory_floor_gbs": finite(value.get("memory_floor_gbs")),
        "spread_limit": finite(value.get("spread_limit")),
        "rows": [
            {
                "node": plain(row.get("node") or ""),
                "device": int(finite(row.get("device")) or 0),
                "uuid": plain(row.get("uuid") or ""),
                "kind": plain(row.get("kind") or ""),
                "tflops": finite(row.get("tflops")),
                "lowest_tflops": finite(row.get("lowest_tflops")),
                "memory_gbs": finite(row.get("memory_gbs")),
                "median_share": finite(row.get("median_share")),
                "wrong": row.get("wrong") is True,
            }
            for row in rows_of(value, _MOST_READ)
        ],
    }


def shown_gemm(figures: GemmFigures) -> Section:
    """Return bars of the slowest device of each node, slowest first, and the table of all devices."""
    rows = sorted(figures["rows"], key=lambda row: (not row["wrong"], row["tflops"] or 0.0))
    slowest: dict[str, float | None] = {}
    for row in rows:
        slowest.setdefault(row["node"], row["tflops"])
    labels = list(slowest)[:_MOST_BARS]
    floor, memory = figures["tflops_floor"], figures["memory_floor_gbs"]
    least = [f"{floor:.4g} TFLOP/s"] if floor else []
    least += [f"{memory:.4g} GB/s of memory"] if memory else []
    size = f"{figures['size']:.0f} x {figures['size']:.0f}, {figures['precision']}" if figures["size"] else ""
    return {
        "charts": [
            {
                "kind": "bars",
                "title": "Slowest of each node",
                "unit": "TFLOP/s",
                "labels": labels,
                "series": [
                    {
                        "name": "measured",
                        "values": [slowest[node] for node in labels],
                        "limits": [floor] if floor else [],
                    }
                ],
                "sideways": False,
            }
        ]
        if labels
        else [],
        "table": {
            "columns": [
                ("Node", "text"),
                ("Device", "number"),
                ("UUID", "text"),
                ("Kind", "text"),
                ("TFLOP/s", "number"),
                ("Slowest batch", "number"),
                ("Of the median, %", "number"),
                ("Memory, GB/s", "number"),
                ("Results", "text"),
            ],
            "rows": [_cells(row) for row in rows[:_MOST_ROWS]],
        },
        "note": _NOTE,
        "facts": [("Matrices", size), ("At least", ", ".join(least))],
    }


def _cells(row: GemmRow) -> list[Cell]:
    return [
        text_cell(row["node"]),
        {"text": str(row["device"]), "value": row["device"]},
        text_cell(row["uuid"]),
        text_cell(row["kind"]),
        number_cell(row["tflops"]),
        number_cell(row["lowest_tflops"]),
        number_cell(row["median_share"], 100),
        number_cell(row["memory_gbs"]),
        text_cell("wrong", "fail") if row["wrong"] else text_cell("as expected"),
    ]


def gemm_metrics(figures: GemmFigures) -> list[Metric]:
    """Return speed, memory bandwidth and wrong results of each device."""
    found: list[Metric] = []
    for row in figures["rows"]:
        labels = {"node": row["node"], "device": str(row["device"])}
        speed, memory = row["tflops"], row["memory_gbs"]
        words = "Operations of products of matrices per second on a device, in units of 10^12."
        found.append({"name": "gemm_tflops", "help": words, "labels": labels, "value": speed})
        words = "Bytes per second that a copy in a device's memory reads and writes."
        value = None if memory is None else memory * _GB
        found.append({"name": "gemm_memory_bytes_per_second", "help": words, "labels": labels, "value": value})
        words = "1 where a device gave wrong results, 0 where it did not."
        found.append({"name": "gemm_wrong", "help": words, "labels": labels, "value": float(row["wrong"])})
    return found
