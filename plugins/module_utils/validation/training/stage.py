# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""The stage training: one job over all nodes, one scale after the other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, TypedDict

from ...catalogue.ceilings import nic_rate
from ..options import Span
from ..stage import OneJob
from ..tests import gpu_count
from .check import Asked, judge_training
from .floors import known_floors
from .learned import Reference
from .output import read_training
from .shown import shown_training, training_figures, training_metrics

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..model import Options, Planned
    from ..section import Metric, Section, ShownTest
    from .shown import TrainingFigures

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


class Training(OneJob[TrainingOptions]):
    """Trains on one rank, on one node and on more of them, and holds the throughput against floors."""

    name = "training"
    form = TrainingOptions
    title = "Training"
    rank = 2

    def budget(self, options: Options) -> list[str]:
        """Return how long it may take."""
        return [f"training: one rank, one node, then more of them at once, at most {options['test_time_limit']} s"]

    def ranks_per_node(self, options: Options, nodes: list[str]) -> int:
        """Return one rank per GPU, of the node with the fewest; on CPUs as many as asked for."""
        if options["backend"] == "mpi":
            return options["mpi_ranks_per_node"]
        return max(1, min((gpu_count(profile) for profile in _profiles(options, nodes)), default=1))

    def arguments(self, options: Options, ranks: int) -> list[str]:
        """Return the ranks and GPUs that the job asks for."""
        gpus = [f"--gpus-per-node={ranks}"] if options["backend"] == "nccl" else []
        return [f"--ntasks-per-node={ranks}", f"--export=ALL,BUSBAR_RANKS_PER_NODE={ranks}", *gpus]

    def answer(self, options: Options, planned: Planned, nodes: list[str], text: str) -> dict[str, Any]:
        """Return what the output says of each scale."""
        return judge_training(read_training(text), self._asked(options, nodes, planned["ranks_per_node"]))

    def _asked(self, options: Options, nodes: list[str], ranks: int) -> Asked:
        """Return what the training is judged by: the operator's floors, else those of the nodes' hardware."""
        profiles = _profiles(options, nodes)
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

    def read(self, value: object, plain: Callable[[object], str]) -> TrainingFigures | None:
        """Return the training of a test."""
        return training_figures(value, plain)

    def section(self, figures: TrainingFigures) -> Section:
        """Return what the page shows of the training."""
        return shown_training(figures)

    def metrics(self, test: ShownTest) -> list[Metric]:
        """Return what Prometheus is told of each scale."""
        return training_metrics(test["own"]) if test["own"] else []


def scales_of(nodes: int, ranks: int) -> list[tuple[int, int]]:
    """Return nodes and ranks per node of each run: one rank, a whole node, 2, 4, 8, … and all nodes."""
    found = [(1, 1), (1, ranks)]
    count = _PAIR
    while count < nodes:
        found.append((count, ranks))
        count *= 2
    found.append((nodes, ranks))
    return list(dict.fromkeys(found))


def _profiles(options: Options, nodes: list[str]) -> list[dict[str, Any]]:
    return [options["catalogue"].get(options["hardware"].get(node) or "") or {} for node in nodes]
