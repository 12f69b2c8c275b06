# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""The hpl stage: High-Performance Linpack on all nodes together.

Linpack prints a line such as ``WR11C2R4 200 80 1 1 0.00 1.513e+00``, in some builds with the rate per GPU in brackets,
and a residual line that ends with PASSED or FAILED. The rate is always (2/3 n^3 + 3/2 n^2) / time (HPL 2.3,
testing/ptest/HPL_pdtest.c).
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Annotated, Any, TypedDict

from ...common.option_names_in_messages import option
from ..option_types import Span
from ..planned_tests import profile_of
from ..result_presentation import at_least, text_cell
from .program_stage import ProgramStage
from .report_columns import Column, Figures, Gauge
from .stage_verdict import Fault, Judged

if TYPE_CHECKING:
    from ..result_presentation import Cell, Metric, ShownTest
    from ..validation_types import Options

_CPU_N, _CPU_NB, _GPU_NB = 2000, 80, 1024
_DOUBLE, _MIB = 8, 1 << 20
# Share of GPU memory for the matrix; panels and libraries use the rest.
_OF_MEMORY = 0.8
_HUNDREDTH, _ROUNDED = 0.005, 0.001
_NUMBER = r"\d+\.?\d*(?:e[+-]?\d+)?"
_RUN = re.compile(rf"^(W\w{{2,15}})((?:\s+\d{{1,9}}){{4}})\s+({_NUMBER})\s+({_NUMBER})(?:\s+\(\s*{_NUMBER}\s*\))?\s*$")
_RESIDUAL = re.compile(rf"^\|\|Ax-b\|\|_oo\s*/\s*\(.*\)\s*=\s*({_NUMBER}|-?nan|inf)\s*\.+\s*(PASSED|FAILED)\s*$")
_TASK = re.compile(r"^\s*\d{1,6}:\s")


class HplOptions(TypedDict):
    """The validation_hpl_* options: n and nb (0: chosen automatically), gflops per rank (0: no floor)."""

    script: str
    n: Annotated[int, Span(0)]
    nb: Annotated[int, Span(0)]
    gflops: Annotated[float, Span(0)]
    program: str
    arguments: list[str]
    image: str


def _residual(row: dict[str, Any]) -> Cell:
    return text_cell(row["residual"] or "not checked", {True: "pass", False: "fail", None: "skip"}[row["passed"]])


class Hpl(ProgramStage[HplOptions]):
    """Solves a system of equations on all nodes together, and checks the solution."""

    name = "hpl"
    form = HplOptions
    title = "Linpack"
    per_gpu = True
    figures = Figures(
        columns=(
            Column("variant", "Variant", "text"),
            Column("n", "n"),
            Column("nb", "NB"),
            Column("p", "P"),
            Column("q", "Q"),
            Column("seconds", "Seconds"),
            Column("gflops", "Gflop/s"),
            Column("residual", "Scaled residual", "text", cell=_residual),
            Column("passed", read=lambda value: value if isinstance(value, bool) else None),
        ),
        values=(Column("gflops_floor"), Column("ranks")),
        gauges=(
            Gauge(
                "hpl_flops", "Linpack floating-point operations per second on all nodes together.", "gflops", (), 1e9
            ),
            Gauge("hpl_solved", "1 if the solution of Linpack is correct, else 0.", "passed", ()),
        ),
        note="P x Q ranks solve a system of n equations in blocks of NB; the residual must be below 16.",
    )

    def exported(self, options: Options, ranks: int) -> dict[str, Any]:
        """Return the variables for the matrix size; n grows with the square root of the number of nodes."""
        own, gpus = self.own(options), options["backend"] == "nccl"
        profiles = [profile_of(options, node) for node in options["nodes"]]
        memory = min((int((profile.get("gpu") or {}).get("memory_mb") or 0) for profile in profiles), default=0)
        each = int(math.sqrt(_OF_MEMORY * memory * _MIB * ranks / _DOUBLE)) if gpus else _CPU_N
        block = own["nb"] or (_GPU_NB if gpus else _CPU_NB)
        return {"BUSBAR_HPL_N": own["n"], "BUSBAR_HPL_N_EACH": each, "BUSBAR_HPL_NB": block}

    def judged(self, options: Options, nodes: list[str], ranks: int, text: str) -> Judged:
        """Return whether all solutions are correct and the last system was solved fast enough."""
        solved, ranks, floor = read_hpl(text), ranks * len(nodes), self.own(options)["gflops"]
        gap, result, fault = _gap(solved, ranks), "", ""
        if not gap:
            last, each = solved[-1], solved[-1]["gflops"] / ranks
            speed = f"{last['gflops']:.4g} Gflop/s, {each:.4g} per rank"
            result = f"n {last['n']}: {speed}, residual {last['residual']} passed"
            fault = f"{result}, floor {floor:g} per rank" if each < floor else ""
        if wrong := next((item for item in solved if item["passed"] is False), None):
            fault = f"n {wrong['n']}: the solution is wrong, scaled residual {wrong['residual']}"
        return Judged(
            result=result,
            # With several nodes, any of them may be the cause.
            faults=[Fault(nodes[0] if len(nodes) == 1 else "", fault, fault)] if fault else [],
            gaps=[gap] if gap and not fault else [],
            doubt="" if floor else f"no floor is known: set {option('hpl_gflops')}",
            source="the operator" if floor else "",
            program="High-Performance Linpack",
            figures={"gflops_floor": floor or None, "ranks": ranks, "rows": solved},
        )

    def facts(self, figures: dict[str, Any]) -> list[tuple[str, str]]:
        """Return the ranks and the floor."""
        ranks = "" if figures["ranks"] is None else f"{figures['ranks']:.0f}"
        return [("Ranks", ranks), at_least((figures["gflops_floor"], "{:g} Gflop/s per rank"))]

    def metrics(self, test: ShownTest) -> list[Metric]:
        """Return the Prometheus samples of the last solved system."""
        return self.figures.metrics({"rows": test["own"]["rows"][-1:]}) if test["own"] else []


def read_hpl(text: str) -> list[dict[str, Any]]:
    """Return each solved system; passed is None if its residual was not checked."""
    found: list[dict[str, Any]] = []
    for raw in text.splitlines():
        line = _TASK.sub("", raw)
        if run := _RUN.match(line):
            sizes = dict(zip(("n", "nb", "p", "q"), map(int, run[2].split())))
            speeds = {"seconds": float(run[3]), "gflops": float(run[4])}
            found.append({"variant": run[1], **sizes, **speeds, "residual": "", "passed": None})
        elif found and found[-1]["passed"] is None and (check := _RESIDUAL.match(line)):
            found[-1] |= {"residual": check[1], "passed": check[2] == "PASSED"}
    return found


def _gap(solved: list[dict[str, Any]], ranks: int) -> str:
    """Return why the output is inconclusive; empty if it is conclusive."""
    if not solved:
        return f"no system was solved: check {option('hpl_program')} and {option('hpl_image')}"
    last, took = solved[-1], solved[-1]["p"] * solved[-1]["q"]
    if last["passed"] is None:
        return f"n {last['n']}: the solution was not checked"
    if took != ranks:
        return f"n {last['n']}: {took} rank(s) in {last['p']} x {last['q']} took part (expected {ranks})"
    work, seconds = (2 / 3 * last["n"] ** 3 + 3 / 2 * last["n"] ** 2) / 1e9, last["seconds"]
    slow = last["gflops"] < work / (seconds + _HUNDREDTH) * (1 - _ROUNDED)
    fast = seconds > _HUNDREDTH and last["gflops"] > work / (seconds - _HUNDREDTH) * (1 + _ROUNDED)
    return f"n {last['n']}: the rate of {last['gflops']:g} Gflop/s contradicts {seconds:g} s" if slow or fast else ""
