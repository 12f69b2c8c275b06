# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""The stage hpl: High-Performance Linpack over all nodes at once."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Any, TypedDict

from ..device_job import DeviceJob
from ..options import Span
from ..stage import Shown
from ..tests import profile_of
from .check import judge_hpl
from .output import read_hpl
from .shown import hpl_figures, hpl_metrics, shown_hpl

if TYPE_CHECKING:
    from ..model import Options, Planned

__all__ = ["Hpl", "HplOptions"]

_CPU_N, _CPU_NB, _GPU_NB = 2000, 80, 1024
_DOUBLE = 8
_MIB = 1 << 20
# Of a GPU's memory; the rest is for the panels and the libraries.
_OF_MEMORY = 0.8


class HplOptions(TypedDict):
    """The options validation_hpl_*: n and nb are 0 for what fits, gflops is of each rank, 0 for no floor."""

    script: str
    n: Annotated[int, Span(0)]
    nb: Annotated[int, Span(0)]
    gflops: Annotated[float, Span(0)]
    program: str
    arguments: list[str]
    image: str


class Hpl(DeviceJob[HplOptions]):
    """Solves one system of equations on all nodes together, and checks the solution."""

    name = "hpl"
    form = HplOptions
    title = "Linpack"
    rank = 2
    shown = Shown(hpl_figures, shown_hpl, hpl_metrics)

    def exported(self, options: Options, ranks: int) -> dict[str, Any]:
        """Return how large the matrix is in each node."""
        own, gpus = self.own(options), options["backend"] == "nccl"
        nb = own["nb"] or (_GPU_NB if gpus else _CPU_NB)
        profiles = [profile_of(options, node) for node in options["nodes"]]
        memory = min((int((profile.get("gpu") or {}).get("memory_mb") or 0) for profile in profiles), default=0)
        # Of one node: the job knows how many there are, and n grows with their root.
        each = int(math.sqrt(_OF_MEMORY * memory * _MIB * ranks / _DOUBLE)) if gpus else _CPU_N
        return {"BUSBAR_HPL_N": own["n"], "BUSBAR_HPL_N_EACH": each, "BUSBAR_HPL_NB": nb}

    def answer(self, options: Options, planned: Planned, nodes: list[str], text: str) -> dict[str, Any]:
        """Return what the output says."""
        ranks = planned["ranks_per_node"] * len(nodes)
        return judge_hpl(read_hpl(text), nodes, ranks, self.own(options)["gflops"])
