# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""Reads what a report says of a training, and shows it: a row, bars and metrics for each scale."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["TRAINING", "training_families", "training_of", "training_rows"]

TRAINING = "training"
_NONE = "\u2013"
_MOST_ROWS = 64
_MS = 1000
_WHOLE = ("nodes", "ranks")
_NUMBERS = (
    "samples_per_second",
    "ideal",
    "efficiency",
    "step_seconds",
    "compute_seconds",
    "all_reduce_seconds",
    "all_reduce_share",
)
# Key, unit and the factor to it, for the page.
_SHOWN = (
    ("samples_per_second", 1),
    ("ideal", 1),
    ("efficiency", 100),
    ("step_seconds", _MS),
    ("compute_seconds", _MS),
    ("all_reduce_seconds", _MS),
    ("all_reduce_share", 100),
)


def training_of(value: object, plain: Callable[[object], str]) -> dict[str, Any] | None:
    """Return the training of a test, None for a test that is none; texts as `plain` makes them.

    Returns:
        efficiency_floor (a share), rate_floor (samples/s), and rows, each with label, cause (texts), nodes, ranks,
        samples_per_second, ideal, efficiency, step_seconds, compute_seconds, all_reduce_seconds and all_reduce_share; a
        number is None where it is not known.
    """
    if not isinstance(value, dict):
        return None
    rows = [item for item in value["rows"] if isinstance(item, dict)] if isinstance(value.get("rows"), list) else []
    return {
        **{key: _number(value.get(key)) for key in ("efficiency_floor", "rate_floor")},
        "rows": [
            {
                **{key: plain(row.get(key) or "") for key in ("label", "cause")},
                **{key: int(_number(row.get(key)) or 0) for key in _WHOLE},
                **{key: _number(row.get(key)) for key in _NUMBERS},
            }
            for row in rows[:_MOST_ROWS]
        ],
    }


def _number(value: object) -> float | None:
    known = isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < 1e308  # noqa: PLR2004
    return float(value) if known and isinstance(value, (int, float)) else None


def training_rows(training: dict[str, Any] | None) -> list[dict[str, Any]]:
    """Return the rows of the page's table; shares in percent, seconds in milliseconds, each with text and value."""
    return [
        {**row, "figures": [_figure(row[key], factor) for key, factor in _SHOWN]}
        for row in (training["rows"] if training else [])
    ]


def _figure(value: float | None, factor: int) -> dict[str, Any]:
    return {"text": _NONE if value is None else f"{value * factor:.4g}", "value": "" if value is None else value}


def training_families(
    tests: list[dict[str, Any]], cluster: str
) -> list[tuple[str, str, list[tuple[dict[str, object], float | None]]]]:
    """Return name, help and samples (labels and value) of the metrics about trainings.

    Args:
        tests: of a report as `report_data.normalised` gives it.
        cluster: its name.
    """
    rows = [
        ({"cluster": cluster, "nodes": str(row["nodes"]), "ranks": str(row["ranks"])}, row)
        for test in tests
        if test[TRAINING]
        for row in test[TRAINING]["rows"]
    ]
    families = (
        ("samples_per_second", "samples_per_second", "Samples per second of all ranks of a training together."),
        ("efficiency", "efficiency_ratio", "The share of as many times the samples per second of one rank."),
        ("all_reduce_share", "communication_ratio", "The share of a step that is communication and nothing else."),
    )
    return [
        (f"busbar_training_{name}", words, [(dict(labels), row[key]) for labels, row in rows])
        for key, name, words in families
    ]
