# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""The stage rdma_pairs: RDMA writes from each node to its neighbours, over one rail after the other."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any, TypedDict

from ..options import Span
from ..section import finite, number_cell, text_cell
from ..stage import Next, OneJob
from .check import judge_pairs
from .output import read_pairs

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..model import Options, Planned, State
    from ..section import Metric, Section, ShownTest

__all__ = ["RdmaPairs", "RdmaPairsOptions"]

_TWO = 2
_MOST_READ = 65_536
_MOST_ROWS = 512
_BITS = 8
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
        kinds = [_rdma(options["catalogue"].get(options["hardware"].get(node) or "") or {}) for node in nodes]
        rates = [min(rates) for rates in kinds if rates]
        known = own["gbps"] or (_SHARE * min(rates) if rates and len(rates) == len(nodes) else None)
        source = "the operator" if own["gbps"] else _SOURCE if known else ""
        rails = len(own["rails"]) or min((len(rates) for rates in kinds), default=0) or 1
        return judge_pairs(read_pairs(text), nodes, rails, known, source)

    def read(self, value: object, plain: Callable[[object], str]) -> dict[str, Any] | None:
        """Return the figures of a test."""
        if not isinstance(value, dict):
            return None
        rows = [row for row in value["rows"] if isinstance(row, dict)] if isinstance(value.get("rows"), list) else []
        return {
            "gbps_floor": finite(value.get("gbps_floor")),
            "rows": [
                {
                    **{key: plain(row.get(key) or "") for key in ("rail", "client", "server", "said")},
                    "gbps": finite(row.get("gbps")),
                }
                for row in rows[:_MOST_READ]
            ],
        }

    def section(self, figures: dict[str, Any]) -> Section:
        """Return the table of all ways, slowest first."""
        floor = figures["gbps_floor"]
        rows = sorted(figures["rows"], key=lambda row: row["gbps"] or 0.0)[:_MOST_ROWS]
        return {
            "charts": [],
            "table": {
                "columns": [
                    ("Rail", "text"),
                    ("From", "text"),
                    ("To", "text"),
                    ("Gb/s", "number"),
                    ("", "long"),
                ],
                "rows": [
                    [
                        text_cell(row["rail"]),
                        text_cell(row["client"]),
                        text_cell(row["server"]),
                        number_cell(row["gbps"]),
                        text_cell(row["said"]),
                    ]
                    for row in rows
                ],
            },
            "note": "RDMA writes by perftest, one rail and one direction at a time.",
            "facts": [("At least", f"{floor:g} Gb/s on each rail" if floor else "")],
        }

    def metrics(self, test: ShownTest) -> list[Metric]:
        """Return the slowest way out of each node over each rail."""
        lowest: dict[tuple[str, str], float] = {}
        for row in (test["own"] or {"rows": []})["rows"]:
            if row["gbps"] is not None:
                key = (row["client"], row["rail"])
                lowest[key] = min(row["gbps"], lowest.get(key, row["gbps"]))
        words = "What a node sends at the least over a rail to one of its neighbours."
        return [
            {
                "name": "rdma_pairs_bytes_per_second",
                "help": words,
                "labels": {"node": node, "rail": rail},
                "value": gbps * 1e9 / _BITS,
            }
            for (node, rail), gbps in lowest.items()
        ]


def _rdma(profile: dict[str, Any]) -> list[float]:
    """Return the rates of a node's NICs with RDMA, one each, in Gb/s."""
    return [
        float(nic["gbps"]) for nic in profile.get("nics") or [] if nic.get("rdma") for _ in range(int(nic["count"]))
    ]
