# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""Reads what a report says of a training, and shows it: bars, a row and metrics for each scale."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

from ..section import finite, number_cell, rows_of, text_cell

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..section import Cell, Chart, Metric, Section, Series

__all__ = ["TrainingFigures", "TrainingRow", "shown_training", "training_figures", "training_metrics"]

_MOST_ROWS = 64
_MOST_LOSSES = 200
_PAIR = 2
_MS = 1000
_NOTE = (
    "Step: a whole step, median. Computation: the same step of the slowest rank without the others. Communication: "
    "the difference, which no computation hides. TFLOP/s: the model's operations (2 for each multiplication and "
    "addition, forward and backward) over the time of a step."
)


class TrainingRow(TypedDict):
    """What a scale reached; efficiency, its floor, all_reduce_share and peak_share are shares of 1."""

    label: str
    cause: str
    nodes: int
    ranks: int
    samples_per_second: float | None
    ideal: float | None
    efficiency: float | None
    step_seconds: float | None
    compute_seconds: float | None
    all_reduce_seconds: float | None
    all_reduce_share: float | None
    data_seconds: float | None
    efficiency_floor: float | None
    tokens_per_second: float | None
    tflops_per_rank: float | None
    peak_share: float | None
    losses: list[tuple[float, float]]


class TrainingFigures(TypedDict):
    """A training: what was trained, the floors (a share of 1, samples/s, TFLOP/s of a rank) and each scale."""

    model: str
    precision: str
    efficiency_floor: float | None
    rate_floor: float | None
    tflops_floor: float | None
    loss_limit: float | None
    rows: list[TrainingRow]


def training_figures(value: object, plain: Callable[[object], str]) -> TrainingFigures | None:
    """Return the training of a test, None for a test that is none; texts as `plain` makes them."""
    if not isinstance(value, dict):
        return None
    return {
        "model": plain(value.get("model") or ""),
        "precision": plain(value.get("precision") or ""),
        "tflops_floor": finite(value.get("tflops_floor")),
        "efficiency_floor": finite(value.get("efficiency_floor")),
        "rate_floor": finite(value.get("rate_floor")),
        "loss_limit": finite(value.get("loss_limit")),
        "rows": [
            {
                "label": plain(row.get("label") or ""),
                "cause": plain(row.get("cause") or ""),
                "nodes": int(finite(row.get("nodes")) or 0),
                "ranks": int(finite(row.get("ranks")) or 0),
                "samples_per_second": finite(row.get("samples_per_second")),
                "ideal": finite(row.get("ideal")),
                "efficiency": finite(row.get("efficiency")),
                "step_seconds": finite(row.get("step_seconds")),
                "compute_seconds": finite(row.get("compute_seconds")),
                "all_reduce_seconds": finite(row.get("all_reduce_seconds")),
                "all_reduce_share": finite(row.get("all_reduce_share")),
                "data_seconds": finite(row.get("data_seconds")),
                "efficiency_floor": finite(row.get("efficiency_floor")),
                "tokens_per_second": finite(row.get("tokens_per_second")),
                "tflops_per_rank": finite(row.get("tflops_per_rank")),
                "peak_share": finite(row.get("peak_share")),
                "losses": _losses(row.get("losses")),
            }
            for row in rows_of(value, _MOST_ROWS)
        ],
    }


def _losses(value: object) -> list[tuple[float, float]]:
    """Return steps with their losses, ascending."""
    pairs = [pair for pair in value if isinstance(pair, list) and len(pair) == _PAIR] if isinstance(value, list) else []
    found = [(finite(step), finite(loss)) for step, loss in pairs[:_MOST_LOSSES]]
    return sorted((step, loss) for step, loss in found if step is not None and loss is not None)


def _bars(rows: list[TrainingRow]) -> list[Chart]:
    """Return what each scale reaches before as many ranks alone."""
    if not rows:
        return []
    return [
        {
            "kind": "bars",
            "title": "",
            "unit": "samples/s",
            "labels": [row["label"] for row in rows],
            "series": [
                {
                    "name": "measured",
                    "values": [row["samples_per_second"] for row in rows],
                    "words": [_share(row) for row in rows],
                },
                {"name": "as many ranks alone", "values": [row["ideal"] for row in rows], "pale": True},
            ],
            "sideways": False,
        }
    ]


def _loss_chart(figures: TrainingFigures) -> list[Chart]:
    """Return the curve of one rank, before the level that it must come down to."""
    losses = figures["rows"][0]["losses"] if figures["rows"] else []
    limit = figures["loss_limit"]
    if not losses:
        return []
    series: Series = {"name": figures["rows"][0]["label"], "values": [loss for _step, loss in losses]}
    if limit is not None:
        series["limits"] = [limit]
    return [
        {
            "kind": "lines",
            "title": "Loss",
            "unit": "",
            "across": "step",
            "at": [step for step, _loss in losses],
            "series": [series],
        }
    ]


def shown_training(figures: TrainingFigures) -> Section:
    """Return the bars of what each scale reaches before as many ranks alone, and the table of them."""
    rows = figures["rows"]
    efficiency, rate = figures["efficiency_floor"], figures["rate_floor"]
    least = [f"{efficiency:.0%} of as many ranks alone"] if efficiency else []
    least += [f"{rate:.4g} samples/s of one rank"] if rate else []
    least += [f"{figures['tflops_floor']:.3g} TFLOP/s of one rank"] if figures["tflops_floor"] else []
    what = ", ".join(filter(None, (figures["model"], figures["precision"])))
    facts = [("Trained", what), ("At least", ", ".join(least))]
    if figures["loss_limit"] is not None:
        facts.append(("Loss of one rank", f"at most {figures['loss_limit']:.4g}"))
    return {
        "charts": [*_bars(rows), *_loss_chart(figures)],
        "table": {
            "columns": [
                ("On", "text"),
                ("Ranks", "number"),
                ("Samples/s", "number"),
                ("As many alone", "number"),
                ("Efficiency, %", "number"),
                ("Step, ms", "number"),
                ("Computation", "number"),
                ("Communication", "number"),
                ("Its share, %", "number"),
                ("Most is lost to", "text"),
                ("At least, %", "number"),
                ("Samples waited for, ms", "number"),
                ("Tokens/s", "number"),
                ("TFLOP/s per rank", "number"),
                ("Of the peak, %", "number"),
            ],
            "rows": [_cells(number, row) for number, row in enumerate(rows, start=1)],
        },
        "note": _NOTE,
        "facts": facts,
    }


def _share(row: TrainingRow) -> str:
    return "" if row["efficiency"] is None or row["ranks"] == 1 else f"{100 * row['efficiency']:.3g} %"


def _cells(number: int, row: TrainingRow) -> list[Cell]:
    return [
        {"text": row["label"], "value": number},
        {"text": str(row["ranks"]), "value": row["ranks"]},
        number_cell(row["samples_per_second"]),
        number_cell(row["ideal"]),
        number_cell(row["efficiency"], 100),
        number_cell(row["step_seconds"], _MS),
        number_cell(row["compute_seconds"], _MS),
        number_cell(row["all_reduce_seconds"], _MS),
        number_cell(row["all_reduce_share"], 100),
        text_cell(row["cause"]),
        number_cell(row["efficiency_floor"], 100),
        number_cell(row["data_seconds"], _MS),
        number_cell(row["tokens_per_second"]),
        number_cell(row["tflops_per_rank"]),
        number_cell(row["peak_share"], 100),
    ]


def training_metrics(figures: TrainingFigures) -> list[Metric]:
    """Return speed, efficiency and communication of each scale."""
    found: list[Metric] = []
    for row in figures["rows"]:
        labels = {"nodes": str(row["nodes"]), "ranks": str(row["ranks"])}
        words = "Samples per second of all ranks of a training together."
        speed = row["samples_per_second"]
        found.append({"name": "training_samples_per_second", "help": words, "labels": labels, "value": speed})
        words = "The share of as many times the samples per second of one rank."
        efficiency = row["efficiency"]
        found.append({"name": "training_efficiency_ratio", "help": words, "labels": labels, "value": efficiency})
        words = "Operations of the model per second and rank, in units of 10^12."
        found.append({"name": "training_tflops", "help": words, "labels": labels, "value": row["tflops_per_rank"]})
        words = "The share of a step that is communication and nothing else."
        share = row["all_reduce_share"]
        found.append({"name": "training_communication_ratio", "help": words, "labels": labels, "value": share})
    return found
