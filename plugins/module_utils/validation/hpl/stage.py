# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""The stage hpl: High-Performance Linpack over all nodes at once."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Any, TypedDict

from ..options import Span
from ..section import finite, number_cell, text_cell
from ..stage import OneJob
from ..tests import gpu_count
from .check import judge_hpl
from .output import read_hpl

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..model import Options, Planned
    from ..section import Cell, Metric, Section, ShownTest

__all__ = ["Hpl", "HplOptions"]

_MOST_ROWS = 64
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


class Hpl(OneJob[HplOptions]):
    """Solves one system of equations on all nodes together, and checks the solution."""

    name = "hpl"
    form = HplOptions
    title = "Linpack"
    rank = 2

    def ranks_per_node(self, options: Options, nodes: list[str]) -> int:
        """Return one rank per GPU, of the node with the fewest; on CPUs as many as asked for."""
        if options["backend"] == "mpi":
            return options["mpi_ranks_per_node"]
        return max(1, min((gpu_count(_profile(options, node)) for node in nodes), default=1))

    def arguments(self, options: Options, ranks: int) -> list[str]:
        """Return the ranks and GPUs that the job asks for, and how large the matrix is in each node."""
        own, gpus = self.own(options), options["backend"] == "nccl"
        nb = own["nb"] or (_GPU_NB if gpus else _CPU_NB)
        profiles = [_profile(options, node) for node in options["nodes"]]
        memory = min((int((profile.get("gpu") or {}).get("memory_mb") or 0) for profile in profiles), default=0)
        # Of one node: the job knows how many there are, and n grows with their root.
        each = int(math.sqrt(_OF_MEMORY * memory * _MIB * ranks / _DOUBLE)) if gpus else _CPU_N
        exported = f"BUSBAR_RANKS_PER_NODE={ranks},BUSBAR_HPL_N={own['n']},BUSBAR_HPL_N_EACH={each},BUSBAR_HPL_NB={nb}"
        asked = [f"--gpus-per-node={ranks}"] if gpus else []
        return [f"--ntasks-per-node={ranks}", f"--export=ALL,{exported}", *asked]

    def answer(self, options: Options, planned: Planned, nodes: list[str], text: str) -> dict[str, Any]:
        """Return what the output says."""
        ranks = planned["ranks_per_node"] * len(nodes)
        return judge_hpl(read_hpl(text), nodes, ranks, self.own(options)["gflops"])

    def read(self, value: object, plain: Callable[[object], str]) -> dict[str, Any] | None:
        """Return the figures of a test."""
        if not isinstance(value, dict):
            return None
        rows = [row for row in value["rows"] if isinstance(row, dict)] if isinstance(value.get("rows"), list) else []
        return {
            "gflops_floor": finite(value.get("gflops_floor")),
            "ranks": finite(value.get("ranks")),
            "rows": [
                {
                    **{key: plain(row.get(key) or "") for key in ("variant", "residual")},
                    **{key: finite(row.get(key)) for key in ("n", "nb", "p", "q", "seconds", "gflops")},
                    "passed": row.get("passed") if isinstance(row.get("passed"), bool) else None,
                }
                for row in rows[:_MOST_ROWS]
            ],
        }

    def section(self, figures: dict[str, Any]) -> Section:
        """Return the table of the systems that were solved."""
        floor, ranks = figures["gflops_floor"], figures["ranks"]
        return {
            "charts": [],
            "table": {
                "columns": [
                    ("Variant", "text"),
                    ("n", "number"),
                    ("NB", "number"),
                    ("P", "number"),
                    ("Q", "number"),
                    ("Seconds", "number"),
                    ("Gflop/s", "number"),
                    ("Scaled residual", "text"),
                ],
                "rows": [_cells(row) for row in figures["rows"]],
            },
            "note": "One system of n equations, solved by P x Q ranks in blocks of NB; the residual must be below 16.",
            "facts": [
                ("Ranks", "" if ranks is None else f"{ranks:.0f}"),
                ("At least", f"{floor:g} Gflop/s per rank" if floor else ""),
            ],
        }

    def metrics(self, test: ShownTest) -> list[Metric]:
        """Return the rate of the last system, and whether its solution is right."""
        row = (test["own"] or {"rows": []})["rows"][-1:]
        if not row:
            return []
        gflops, passed = row[0]["gflops"], row[0]["passed"]
        speed = None if gflops is None else gflops * 1e9
        return [
            {
                "name": "hpl_flops",
                "help": "Operations per second of Linpack on all nodes together.",
                "labels": {},
                "value": speed,
            },
            {
                "name": "hpl_solved",
                "help": "1 where the solution of Linpack is right, 0 where it is wrong.",
                "labels": {},
                "value": None if passed is None else float(passed),
            },
        ]


def _cells(row: dict[str, Any]) -> list[Cell]:
    badge = {True: "pass", False: "fail", None: "skip"}[row["passed"]]
    return [
        text_cell(row["variant"]),
        *(number_cell(row[key]) for key in ("n", "nb", "p", "q", "seconds", "gflops")),
        text_cell(row["residual"] or "not checked", badge),
    ]


def _profile(options: Options, node: str) -> dict[str, Any]:
    return options["catalogue"].get(options["hardware"].get(node) or "") or {}
