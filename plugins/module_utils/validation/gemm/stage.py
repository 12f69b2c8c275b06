# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""The stage gemm: every GPU multiplies the same matrices and copies its memory, all at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, TypedDict

from ..options import Span
from ..stage import OneJob
from ..tests import gpu_count
from .check import Asked, Floor, judge_gemm
from .output import read_gemm
from .shown import gemm_figures, gemm_metrics, shown_gemm

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..model import Options, Planned
    from ..section import Metric, Section, ShownTest
    from .shown import GemmFigures

__all__ = ["Gemm", "GemmOptions", "known_floor"]


class GemmOptions(TypedDict):
    """The options validation_gemm_*: floors are TFLOP/s and GB/s, 0 for the profile's; spread is percent."""

    script: str
    seconds: Annotated[float, Span(0.1)]
    size: Annotated[int, Span(0)]
    spread: Annotated[float, Span(0, 100)]
    tflops: Annotated[float, Span(0)]
    memory_gbs: Annotated[float, Span(0)]
    wrong_node: str
    python: str
    image: str


class Gemm(OneJob[GemmOptions]):
    """Finds GPUs that are slower than their like, and those that compute wrongly."""

    name = "gemm"
    form = GemmOptions
    title = "Products of matrices"
    rank = 1

    def ranks_per_node(self, options: Options, nodes: list[str]) -> int:
        """Return one rank per GPU, of the node with the fewest; on CPUs as many as asked for."""
        if options["backend"] == "mpi":
            return options["mpi_ranks_per_node"]
        return max(1, min((gpu_count(_profile(options, node)) for node in nodes), default=1))

    def arguments(self, options: Options, ranks: int) -> list[str]:
        """Return the ranks and GPUs that the job asks for."""
        gpus = [f"--gpus-per-node={ranks}"] if options["backend"] == "nccl" else []
        return [f"--ntasks-per-node={ranks}", f"--export=ALL,BUSBAR_RANKS_PER_NODE={ranks}", *gpus]

    def budget(self, options: Options) -> list[str]:
        """Return how long it may take."""
        seconds = self.own(options)["seconds"]
        return [f"gemm: all GPUs at once for {seconds:g} s, at most {options['test_time_limit']} s"]

    def answer(self, options: Options, planned: Planned, nodes: list[str], text: str) -> dict[str, Any]:
        """Return what the output says of each GPU."""
        ranks, said = read_gemm(text)
        return judge_gemm(ranks, said, nodes, self._asked(options, nodes, planned["ranks_per_node"]))

    def _asked(self, options: Options, nodes: list[str], ranks: int) -> Asked:
        own = self.own(options)
        floors: dict[str, Floor] = {}
        sources: dict[str, None] = {}
        for node in nodes:
            profile = _profile(options, node) if options["backend"] == "nccl" else {}
            known = known_floor(profile)
            floors[node] = Floor(own["tflops"] or known.tflops, own["memory_gbs"] or known.memory_gbs)
            if own["tflops"] or own["memory_gbs"]:
                sources["the operator"] = None
            if (known.tflops and not own["tflops"]) or (known.memory_gbs and not own["memory_gbs"]):
                sources[str(profile["gemm"].get("source"))] = None
        what = "cpu" if options["backend"] == "mpi" else "gpu"
        return Asked(ranks, what, floors, own["spread"] / 100, "; ".join(sources))

    def read(self, value: object, plain: Callable[[object], str]) -> GemmFigures | None:
        """Return the figures of a test."""
        return gemm_figures(value, plain)

    def section(self, figures: GemmFigures) -> Section:
        """Return what the page shows of them."""
        return shown_gemm(figures)

    def metrics(self, test: ShownTest) -> list[Metric]:
        """Return what Prometheus is told of each device."""
        return gemm_metrics(test["own"]) if test["own"] else []


def known_floor(profile: dict[str, Any]) -> Floor:
    """Return what a hardware profile asks of each GPU: shares of the peak of its tensor cores and of its memory."""
    declared = profile.get("gemm") or {}
    peak = (profile.get("training") or {}).get("peak_tflops")
    share, memory, memory_share = (declared.get(key) for key in ("share_floor", "memory_gbs", "memory_share_floor"))
    return Floor(share * peak if share and peak else None, memory * memory_share if memory and memory_share else None)


def _profile(options: Options, node: str) -> dict[str, Any]:
    return options["catalogue"].get(options["hardware"].get(node) or "") or {}
