# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""The stage rdma_pairs: RDMA writes from each node to its neighbours, over one rail after the other."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any, TypedDict

from ..options import Span
from ..stage import Next, OneJob, Shown
from ..tests import profile_of
from .check import judge_pairs
from .output import read_pairs
from .shown import rdma_pairs_figures, rdma_pairs_metrics, shown_rdma_pairs

if TYPE_CHECKING:
    from ..model import Options, Planned, State

__all__ = ["RdmaPairs", "RdmaPairsOptions"]

_TWO = 2
# Of the rate of the NIC. What is published of RDMA writes on healthy links of 100 Gb/s is 0.97 and more.
_SHARE = 0.9
_SOURCE = f"computed: {_SHARE:g} of the rate of the profile's NICs"
_RAIL = re.compile(r"[\w.-]+")


class RdmaPairsOptions(TypedDict):
    """The options validation_rdma_pairs_*: gbps is the floor of a rail, 0 for a share of the profile's NICs."""

    script: str
    seconds: Annotated[int, Span(1)]
    gbps: Annotated[float, Span(0)]
    rails: list[str]
    program: str


class RdmaPairs(OneJob[RdmaPairsOptions]):
    """Finds a rail that is slow in one direction, which collectives hide behind the other rails."""

    name = "rdma_pairs"
    form = RdmaPairsOptions
    title = "RDMA writes"
    rank = 3
    shown = Shown(rdma_pairs_figures, shown_rdma_pairs, rdma_pairs_metrics)

    def problems(self, options: Options) -> list[str]:
        """Return what is wrong with the names of the rails."""
        if self.asked(options) and not all(_RAIL.fullmatch(rail) for rail in self.own(options)["rails"]):
            return ["validation_rdma_pairs_rails: must be a list of names of NICs, such as [mlx5_0, mlx5_1]"]
        return []

    def next_tests(self, options: Options, state: State, nodes: list[str]) -> Next:
        """Return the one test, where there are two nodes for it."""
        if not self.tests_of(state) and len(nodes) + options["partners"] < _TWO:
            return Next(skipped=f"{len(nodes)} node(s) passed what came before, a pair has two")
        return super().next_tests(options, state, nodes)

    def answer(self, options: Options, planned: Planned, nodes: list[str], text: str) -> dict[str, Any]:
        """Return what the output says of each way."""
        del planned
        own = self.own(options)
        kinds = [_rdma(profile_of(options, node)) for node in nodes]
        rates = [min(rates) for rates in kinds if rates]
        known = own["gbps"] or (_SHARE * min(rates) if rates and len(rates) == len(nodes) else None)
        source = "the operator" if own["gbps"] else _SOURCE if known else ""
        rails = len(own["rails"]) or min((len(rates) for rates in kinds), default=0) or 1
        return judge_pairs(read_pairs(text), nodes, rails, known, source)


def _rdma(profile: dict[str, Any]) -> list[float]:
    """Return the rates of a node's NICs with RDMA, one each, in Gb/s."""
    return [
        float(nic["gbps"]) for nic in profile.get("nics") or [] if nic.get("rdma") for _ in range(int(nic["count"]))
    ]
