# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""The stage training: one job over all nodes, one scale after the other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, TypedDict

from ...catalogue.ceilings import nic_rate
from ..device_job import DeviceJob
from ..options import Span
from ..stage import Shown
from ..tests import profile_of
from .check import Asked, judge_training
from .floors import known_floors
from .learned import Reference
from .output import read_training
from .shown import shown_training, training_figures, training_metrics

if TYPE_CHECKING:
    from ..model import Options, Planned

__all__ = ["Training", "TrainingOptions", "scales_of"]

_PAIR = 2


class TrainingOptions(TypedDict):
    """The options validation_training_*.

    efficiency is a share of 1, rate in samples/s, tflops in 10^12 operations per second of a rank, 0 for the
    profile's; loss 0 for no reference, and loss_tolerance a share of it.
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


class Training(DeviceJob[TrainingOptions]):
    """Trains on one rank, on one node and on more of them, and holds the throughput against floors."""

    name = "training"
    form = TrainingOptions
    title = "Training"
    rank = 2
    shown = Shown(training_figures, shown_training, training_metrics)

    def budget(self, options: Options) -> list[str]:
        """Return how long it may take."""
        return [f"training: one rank, one node, then more of them at once, at most {options['test_time_limit']} s"]

    def answer(self, options: Options, planned: Planned, nodes: list[str], text: str) -> dict[str, Any]:
        """Return what the output says of each scale."""
        return judge_training(read_training(text), self._asked(options, nodes, planned["ranks_per_node"]))

    def _asked(self, options: Options, nodes: list[str], ranks: int) -> Asked:
        """Return what the training is judged by: the operator's floors, else those of the nodes' hardware."""
        profiles = [profile_of(options, node) for node in nodes]
        own = self.own(options)
        wires = [nic_rate(profile.get("nics") or []) for profile in profiles]
        return Asked(
            scales=scales_of(len(nodes), ranks),
            backend="gloo" if options["backend"] == "mpi" else "nccl",
            model=own["model"],
            floors=known_floors(dict(own), profiles, options["backend"]),
            wire=min(wires, default=0.0) or None,
            reference=Reference(own["loss"] or None, own["loss_tolerance"], own["steps"]),
        )


def scales_of(nodes: int, ranks: int) -> list[tuple[int, int]]:
    """Return nodes and ranks per node of each run: one rank, a whole node, 2, 4, 8, … and all nodes."""
    found = [(1, 1), (1, ranks)]
    count = _PAIR
    while count < nodes:
        found.append((count, ranks))
        count *= 2
    found.append((nodes, ranks))
    return list(dict.fromkeys(found))
