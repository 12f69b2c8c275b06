# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""What a report shows of a soak: the all-reduce, clocks and heat over time, and a row for each device."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..section import finite, number_cell, rows_of, text_cell

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..section import Cell, Chart, Metric, Section, Series

__all__ = ["shown_soak", "soak_figures", "soak_metrics"]

_MOST_READ = 65_536
_MOST_ROWS = 512
_MOST_POINTS = 1000
_PAIR = 2
_FOUR = 4
_NOTE = (
    "Products of matrices and all-reduces in turn. At first and at last are the first and the last turn; what held a "
    "device down is what nvidia-smi told in samples or counted."
)
_COLUMNS = (
    ("tflops_first", "TFLOP/s at first"),
    ("tflops_last", "At last"),
    ("lowest_clock_mhz", "Lowest clock, MHz"),
    ("median_clock_mhz", "Median clock, MHz"),
    ("highest_temperature_c", "Highest, °C"),
    ("highest_power_w", "Highest, W"),
    ("uncorrectable", "Uncorrectable errors"),
    ("correctable", "Correctable errors"),
    ("pcie_replays", "PCIe replays"),
    ("nvlink_errors", "NVLink errors"),
)


def _points(value: object, width: int) -> list[list[float | None]]:
    """Return rows of so many numbers; the first of each is known, and they ascend."""
    rows = [row for row in value if isinstance(row, list) and len(row) == width] if isinstance(value, list) else []
    found = [[finite(each) for each in row] for row in rows[:_MOST_POINTS]]
    return sorted((row for row in found if row[0] is not None), key=lambda row: row[0] or 0.0)


def soak_figures(value: object, plain: Callable[[object], str]) -> dict[str, Any] | None:
    """Return the figures of a test, None for a test that has none; texts as `plain` makes them."""
    if not isinstance(value, dict):
        return None
    return {
        "seconds": finite(value.get("seconds")),
        "turns": finite(value.get("turns")),
        "decay_limit": finite(value.get("decay_limit")),
        "busbw": [row for row in _points(value.get("busbw"), _PAIR) if row[1] is not None],
        "watched": _points(value.get("watched"), _FOUR),
        "rows": [
            {
                **{key: plain(row.get(key) or "") for key in ("node", "uuid", "slowed")},
                "device": int(finite(row.get("device")) or 0),
                **{key: finite(row.get(key)) for key, _title in _COLUMNS},
            }
            for row in rows_of(value, _MOST_READ)
        ],
    }


def shown_soak(figures: dict[str, Any]) -> Section:
    """Return the curves over time, and the table of the devices: those with errors first, then the slowest."""
    rows = sorted(
        figures["rows"], key=lambda row: (not row["uncorrectable"], not row["slowed"], row["tflops_last"] or 0.0)
    )
    watched = figures["watched"]
    charts = [
        _lines("All-reduce", "GB/s", figures["busbw"], {"busbw": 1}),
        _lines("Clocks", "MHz", watched, {"median": 2, "lowest": 1}),
        _lines("Temperature", "°C", watched, {"highest": 3}),
    ]
    minutes, limit = figures["seconds"], figures["decay_limit"]
    return {
        "charts": [chart for chart in charts if chart],
        "table": {
            "columns": [
                ("Node", "text"),
                ("Device", "number"),
                ("UUID", "text"),
                *((title, "number") for _key, title in _COLUMNS),
                ("Held down", "long"),
            ],
            "rows": [_cells(row) for row in rows[:_MOST_ROWS]],
        },
        "note": _NOTE,
        "facts": [
            ("Asked for", "" if minutes is None else f"{minutes / 60:.4g} min"),
            ("Turns", "" if figures["turns"] is None else f"{figures['turns']:.0f}"),
            ("May fall by", "" if limit is None else f"{limit:.0%}"),
        ],
    }


def _lines(title: str, unit: str, points: list[list[float | None]], columns: dict[str, int]) -> Chart | None:
    series: list[Series] = [
        {"name": name, "values": [row[column] for row in points]}
        for name, column in columns.items()
        if any(row[column] is not None for row in points)
    ]
    if not series:
        return None
    at = [row[0] or 0.0 for row in points]
    return {"kind": "lines", "title": title, "unit": unit, "across": "minutes", "at": at, "series": series}


def _cells(row: dict[str, Any]) -> list[Cell]:
    return [
        text_cell(row["node"]),
        {"text": str(row["device"]), "value": row["device"]},
        text_cell(row["uuid"]),
        *(number_cell(row[key]) for key, _title in _COLUMNS),
        text_cell(row["slowed"], "fail") if row["slowed"] else text_cell(""),
    ]


def soak_metrics(figures: dict[str, Any]) -> list[Metric]:
    """Return the all-reduce at first and at last, and heat and errors of each device."""
    found: list[Metric] = []
    speeds = [row[1] for row in figures["busbw"]]
    for turn, value in (("first", speeds[0]), ("last", speeds[-1])) if speeds else ():
        found.append(
            {
                "name": "soak_busbw_bytes_per_second",
                "help": "Bus bandwidth of the all-reduce in the first and the last turn of a soak.",
                "labels": {"turn": turn},
                "value": value * 1e9,
            }
        )
    words = {
        "highest_temperature_c": ("soak_temperature_celsius", "Highest temperature of a device in a soak."),
        "lowest_clock_mhz": ("soak_clock_mhz", "Lowest clock of a device in a soak."),
        "uncorrectable": ("soak_uncorrectable_errors", "Uncorrectable memory errors of a device in a soak."),
    }
    for row in figures["rows"]:
        labels = {"node": row["node"], "device": str(row["device"])}
        for key, (name, told) in words.items():
            found.append({"name": name, "help": told, "labels": labels, "value": row[key]})
    return found
