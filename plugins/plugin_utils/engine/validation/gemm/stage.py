# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""The stage gemm: every GPU multiplies the same matrices and copies its memory, all at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, TypedDict

from ..device_job import DeviceJob
from ..options import Span
from ..stage import Shown
from ..tests import profile_of
from .check import Asked, Floor, judge_gemm
from .output import read_gemm
from .shown import gemm_figures, gemm_metrics, shown_gemm

if TYPE_CHECKING:
    from ..model import Options, Planned

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


class Gemm(DeviceJob[GemmOptions]):
    """Finds GPUs that are slower than their like, and those that compute wrongly."""

    name = "gemm"
    form = GemmOptions
    title = "Products of matrices"
    rank = 1
    shown = Shown(gemm_figures, shown_gemm, gemm_metrics)

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
            profile = profile_of(options, node) if options["backend"] == "nccl" else {}
            known = known_floor(profile)
            floors[node] = Floor(own["tflops"] or known.tflops, own["memory_gbs"] or known.memory_gbs)
            if own["tflops"] or own["memory_gbs"]:
                sources["the operator"] = None
            if (known.tflops and not own["tflops"]) or (known.memory_gbs and not own["memory_gbs"]):
                sources[str(profile["gemm"].get("source"))] = None
        what = "cpu" if options["backend"] == "mpi" else "gpu"
        return Asked(ranks, what, floors, own["spread"] / 100, "; ".join(sources))


def known_floor(profile: dict[str, Any]) -> Floor:
    """Return what a hardware profile asks of each GPU: shares of the peak of its tensor cores and of its memory."""
    declared = profile.get("gemm") or {}
    peak = declared.get("peak_tflops") or (profile.get("training") or {}).get("peak_tflops")
    share, memory, memory_share = (declared.get(key) for key in ("share_floor", "memory_gbs", "memory_share_floor"))
    return Floor(share * peak if share and peak else None, memory * memory_share if memory and memory_share else None)
