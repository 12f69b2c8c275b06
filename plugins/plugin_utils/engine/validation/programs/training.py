# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""The training stage: one job that trains on one rank, on one node and on several nodes."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any, TypedDict

from ...catalogue.ceilings import nic_rate
from ...common.printable import json_object, plain_text
from ..option_types import Span
from ..planned_tests import profile_of
from ..result_presentation import at_least, bars, curves, finite, points
from .program_stage import ProgramStage
from .report_columns import Column, Figures, Gauge
from .training_floors import Reference, known_floors
from .training_judge import Expected, judge_training, scales_of

if TYPE_CHECKING:
    from ..result_presentation import Chart, Series
    from ..validation_types import Options
    from .stage_verdict import Judged

_MARK = "busbar-training "
_SCALE = re.compile(r"^# busbar scale: (\d{1,6}) (\d{1,4})$")
_EXIT = re.compile(r"^# busbar exit: (\d{1,6}) (\d{1,4}) (\d{1,3})$")
_MESSAGE = "train_ddp: "
_MOST_LOSSES = 200
_NUMBERS = (
    "samples_per_second",
    "step_seconds",
    "data_seconds",
    "compute_seconds",
    "all_reduce_seconds",
    "tflops_per_rank",
    "tokens_per_sample",
    "cpus_per_rank",
    "workers_per_rank",
    "first_loss",
    "final_loss",
    "gradient_bytes",
    "batch_per_rank",
    "steps",
)


def read_training(text: str) -> list[dict[str, Any]]:
    """Return the result of each scale, in the order of the job; it never raises.

    The job prints ``# busbar scale: NODES RANKS_PER_NODE`` before each run and ``# busbar exit: NODES RANKS_PER_NODE
    CODE`` after it; the program prints one line ``busbar-training {json}``.

    Returns:
        For each scale nodes and ranks_per_node (as requested), code (exit code; None if it did not end), message (of
        the program if it failed) and result: None, or backend, torch, device, model, precision (strings),
        world_size and nodes (integers), samples_per_second, step_seconds, data_seconds, compute_seconds,
        all_reduce_seconds, tflops_per_rank, tokens_per_sample, cpus_per_rank, workers_per_rank, first_loss, final_loss,
        gradient_bytes, batch_per_rank and steps (numbers, None if not measured), losses (pairs of a step and its loss),
        and hosts (node, ranks, compute_seconds).
    """
    scales: list[dict[str, Any]] = []
    for line in text.splitlines():
        start, end = _SCALE.match(line), _EXIT.match(line)
        if start:
            about = {"nodes": int(start[1]), "ranks_per_node": int(start[2])}
            scales.append({**about, "code": None, "message": "", "result": None})
        elif scales and end:
            scales[-1]["code"] = int(end[3])
        elif scales and _MARK in line:
            # Output of the program may be appended to an unfinished line of NCCL's log.
            found = json_object(line.partition(_MARK)[2])
            scales[-1]["result"] = _result(found) if found else None
        elif scales and line.startswith(_MESSAGE) and not scales[-1]["message"]:
            scales[-1]["message"] = plain_text(line[len(_MESSAGE) :])
    return scales


def _result(found: dict[str, Any]) -> dict[str, Any]:
    hosts = found.get("hosts")
    return {
        **{key: plain_text(found.get(key) or "") for key in ("backend", "torch", "device", "model", "precision")},
        **{key: int(finite(found.get(key)) or 0) for key in ("world_size", "nodes")},
        **{key: finite(found.get(key)) for key in _NUMBERS},
        "losses": [row for row in points(found.get("losses"), 2, _MOST_LOSSES) if row[0] and row[1] is not None],
        "hosts": [
            {
                "node": plain_text(host.get("node") or ""),
                "ranks": int(finite(host.get("ranks")) or 0),
                "compute_seconds": finite(host.get("compute_seconds")),
            }
            for host in (hosts if isinstance(hosts, list) else [])
            if isinstance(host, dict)
        ],
    }


def _gauge(name: str, words: str, key: str) -> Gauge:
    return Gauge(f"training_{name}", words, key, (("nodes", "nodes"), ("ranks", "ranks")))


class TrainingOptions(TypedDict):
    """The validation_training_* options.

    efficiency is a fraction, rate is in samples/s, tflops in TFLOP/s of each rank (0: use the profile's).
    loss is 0 without a reference, and loss_tolerance a fraction of it.
    """

    script: str
    steps: Annotated[int, Span(10)]
    seconds: Annotated[int, Span(1)]
    model: str
    batch: Annotated[int, Span(0)]
    hidden: Annotated[int, Span(0)]
    layers: Annotated[int, Span(0)]
    efficiency: Annotated[float, Span(0, 1)]
    rate: Annotated[float, Span(0)]
    tflops: Annotated[float, Span(0)]
    loss: Annotated[float, Span(0)]
    loss_tolerance: Annotated[float, Span(0)]
    python: str
    image: str


class Training(ProgramStage[TrainingOptions]):
    """Trains on one rank, one node and several nodes, and compares the throughput with floors."""

    name = "training"
    form = TrainingOptions
    title = "Training"
    rank = 2
    per_gpu = True
    figures = Figures(
        columns=(
            Column("label", "On", "text", cell=lambda row: {"text": row["label"], "value": row["ranks"]}),
            Column("nodes", kind="whole"),
            Column("ranks", "Ranks", "whole"),
            Column("samples_per_second", "Samples/s"),
            Column("ideal", "Ideal, samples/s"),
            Column("efficiency", "Efficiency, %", factor=100),
            Column("step_seconds", "Step, ms", factor=1000),
            Column("compute_seconds", "Computation", factor=1000),
            Column("all_reduce_seconds", "Communication", factor=1000),
            Column("all_reduce_share", "Communication, %", factor=100),
            Column("cause", "Bottleneck", "text"),
            Column("efficiency_floor", "Floor, %", factor=100),
            Column("data_seconds", "Wait for samples, ms", factor=1000),
            Column("tokens_per_second", "Tokens/s"),
            Column("tflops_per_rank", "TFLOP/s per rank"),
            Column("peak_share", "Share of peak, %", factor=100),
            Column("losses", read=lambda value: [row for row in points(value, 2, 200) if row[1] is not None]),
        ),
        values=(
            Column("model", kind="text"),
            Column("precision", kind="text"),
            *map(Column, ("efficiency_floor", "rate_floor", "tflops_floor", "loss_limit")),
        ),
        gauges=(
            _gauge("samples_per_second", "Samples per second of all ranks of a training run.", "samples_per_second"),
            _gauge(
                "efficiency_ratio",
                "Samples per second relative to that of one rank times the number of ranks.",
                "efficiency",
            ),
            _gauge("tflops", "Model operations per second on each rank, in units of 10^12.", "tflops_per_rank"),
            _gauge("communication_ratio", "Share of a step that is spent only on communication.", "all_reduce_share"),
        ),
        note=(
            "Ideal: throughput of one rank times the number of ranks. Step: median duration of a step. Computation: "
            "duration of a step of the slowest rank without communication. Communication: step minus computation, "
            "the part that does not overlap. TFLOP/s: operations of the model (2 for each multiplication and "
            "addition, forward and backward) per second."
        ),
    )

    def budget(self, options: Options) -> list[str]:
        """Return the maximum duration."""
        return [f"training: one rank, one node, then more nodes, at most {options['test_time_limit']} s"]

    def judged(self, options: Options, nodes: list[str], ranks: int, text: str) -> Judged:
        """Return the result, judged by the floors from the options or else from the nodes' hardware profiles."""
        own, profiles = self.own(options), [profile_of(options, node) for node in nodes]
        expected = Expected(
            scales=scales_of(len(nodes), ranks),
            backend="gloo" if options["backend"] == "mpi" else "nccl",
            model=own["model"],
            floors=known_floors(dict(own), profiles, options["backend"]),
            wire=min((nic_rate(profile.get("nics") or []) for profile in profiles), default=0.0) or None,
            reference=Reference(own["loss"] or None, own["loss_tolerance"], own["steps"]),
        )
        return judge_training(read_training(text), expected)

    def charts(self, figures: dict[str, Any]) -> list[Chart]:
        """Return charts of the throughput of each scale compared with the ideal one, and of the loss with its limit."""
        rows, limit = figures["rows"], figures["loss_limit"]
        shares = [row["efficiency"] if row["ranks"] > 1 else None for row in rows]
        series: list[Series] = [
            {
                "name": "measured",
                "values": [row["samples_per_second"] for row in rows],
                "words": ["" if share is None else f"{100 * share:.3g} %" for share in shares],
            },
            {"name": "ideal", "values": [row["ideal"] for row in rows], "pale": True},
        ]
        labels = [row["label"] for row in rows]
        losses, limits = rows[0]["losses"] if rows else [], [] if limit is None else [limit]
        return [
            *bars("", "samples/s", labels, series),
            *curves("Loss", "", "step", losses, {"".join(labels[:1]): 1}, limits=limits),
        ]

    def facts(self, figures: dict[str, Any]) -> list[tuple[str, str]]:
        """Return the model and the floors."""
        least = at_least(
            (figures["efficiency_floor"], "{:.0%} efficiency"),
            (figures["rate_floor"], "{:.4g} samples/s of one rank"),
            (figures["tflops_floor"], "{:.3g} TFLOP/s of one rank"),
        )
        limit = "" if figures["loss_limit"] is None else f"at most {figures['loss_limit']:.4g}"
        what = ", ".join(filter(None, (figures["model"], figures["precision"])))
        return [("Trained", what), least, *([("Loss of one rank", limit)] if limit else [])]
