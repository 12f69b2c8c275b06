# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""The stage soak: products of matrices and all-reduces in turn, for as long as asked, and all nodes watched."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, TypedDict

from ...nccl.ras import ras_words
from ..device_job import DeviceJob
from ..judge import PASS
from ..options import Span, bytes_of
from ..stage import Shown
from .check import Asked, judge_soak
from .output import read_soak
from .shown import shown_soak, soak_figures, soak_metrics

if TYPE_CHECKING:
    from ..model import Options, Planned

__all__ = ["Soak", "SoakOptions"]

_MINUTE_S = 60


class SoakOptions(TypedDict):
    """The options validation_soak_*: spread and decay are percent, bytes a size as bytes_of takes it."""

    script: str
    minutes: Annotated[float, Span(0.1)]
    gemm_seconds: Annotated[float, Span(0.1)]
    interval: Annotated[float, Span(0.1)]
    bytes: str
    iterations: Annotated[int, Span(1)]
    spread: Annotated[float, Span(0, 100)]
    decay: Annotated[float, Span(0, 100)]
    kernel_log: bool


class Soak(DeviceJob[SoakOptions]):
    """Finds what fails only when it is warm, and only after a while."""

    name = "soak"
    form = SoakOptions
    title = "Soak"
    rank = 1
    shown = Shown(soak_figures, shown_soak, soak_metrics)

    def problems(self, options: Options) -> list[str]:
        """Return what is wrong with the size, and whether the time of all tests is too short."""
        if not self.asked(options):
            return []
        own, problems = self.own(options), []
        try:
            bytes_of(own["bytes"])
        except ValueError as exc:
            problems.append(f"validation_soak_bytes: {exc}")
        if 0 < options["time_limit"] < self._limit(options):
            problems.append(
                f"validation_time_limit: {options['time_limit']} is less than the {self._limit(options)} s that the "
                f"stage soak may take: raise it, or lower validation_soak_minutes ({own['minutes']:g})"
            )
        if own["interval"] > own["minutes"] * _MINUTE_S / 2:
            problems.append(
                f"validation_soak_interval: {own['interval']:g} s is more than half of validation_soak_minutes "
                f"({own['minutes']:g}): lower it"
            )
        return problems

    def _limit(self, options: Options) -> int:
        """Return the seconds after which the job is cancelled: the last turn may begin when the time is over."""
        return int(self.own(options)["minutes"] * _MINUTE_S) + options["test_time_limit"]

    def budget(self, options: Options) -> list[str]:
        """Return how long it takes."""
        return [f"soak: all together for {self.own(options)['minutes']:g} min, at most {self._limit(options)} s"]

    def exported(self, options: Options, ranks: int) -> dict[str, Any]:
        """Return how long the job goes on."""
        del ranks
        return {"BUSBAR_SOAK_SECONDS": int(self.own(options)["minutes"] * _MINUTE_S)}

    def _planned(self, options: Options, nodes: list[str]) -> Planned:
        return {**super()._planned(options, nodes), "time_limit": self._limit(options)}

    def answer(self, options: Options, planned: Planned, nodes: list[str], text: str) -> dict[str, Any]:
        """Return what the output says of the nodes."""
        own = self.own(options)
        asked = Asked(
            per_node=planned["ranks_per_node"],
            what="cpu" if options["backend"] == "mpi" else "gpu",
            seconds=int(own["minutes"] * _MINUTE_S),
            interval=own["interval"],
            spread=own["spread"] / 100,
            decay=own["decay"] / 100,
            kernel_log=own["kernel_log"],
        )
        found = judge_soak(read_soak(text), nodes, asked)
        return found if found["verdict"] == PASS else {**found, "findings": found["findings"] + ras_words(text)}
