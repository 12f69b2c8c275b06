# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""Says whether a system of equations was solved right, by all ranks, and fast enough.

HPL counts 2/3 n^3 + 3/2 n^2 operations whatever the algorithm does (HPL 2.3, testing/ptest/HPL_pdtest.c), so its rate
follows from its time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..judge import FAIL, INCONCLUSIVE, PASS

if TYPE_CHECKING:
    from .output import Solved

__all__ = ["judge_hpl"]

_HUNDREDTH = 0.005
_ROUNDED = 0.001
_NO_FLOOR = "no floor is known: set validation_hpl_gflops"


def judge_hpl(solved: list[Solved], nodes: list[str], ranks: int, floor: float) -> dict[str, Any]:
    """Return verdict, reason, findings, source, blamed and hpl (the figures of the report).

    Args:
        solved: as output.read_hpl gives them; the last one is judged, a wrong one is wrong in any place.
        nodes: those that took part.
        ranks: all that were asked for.
        floor: Gflop/s of each rank, 0 where not known.
    """
    verdict, reason = _verdict(solved, ranks, floor)
    alone = verdict == FAIL and len(nodes) == 1
    return {
        "verdict": verdict,
        "reason": reason,
        "findings": [],
        "source": "the operator" if floor else None,
        # Among several nodes any one may have spoilt or slowed what all worked on.
        "blamed": [{"node": nodes[0], "reason": reason}] if alone else [],
        "program": "High-Performance Linpack",
        "hpl": {"gflops_floor": floor or None, "ranks": ranks, "rows": [dict(item) for item in solved]},
    }


def _verdict(solved: list[Solved], ranks: int, floor: float) -> tuple[str, str]:
    wrong = next((item for item in solved if item["passed"] is False), None)
    if wrong:
        return FAIL, f"n {wrong['n']}: the solution is wrong, scaled residual {wrong['residual']}"
    doubt = _doubt(solved, ranks)
    if doubt:
        return INCONCLUSIVE, doubt
    last = solved[-1]
    each = last["gflops"] / ranks
    said = f"n {last['n']}: {last['gflops']:.4g} Gflop/s, {each:.4g} per rank, residual {last['residual']} passed"
    if not floor:
        return INCONCLUSIVE, f"{said}; {_NO_FLOOR}"
    return (PASS, said) if each >= floor else (FAIL, f"{said}, floor {floor:g} per rank")


def _doubt(solved: list[Solved], ranks: int) -> str:
    """Return why what was solved proves nothing; an empty text when it does."""
    if not solved:
        return "no system was solved (validation_hpl_program, validation_hpl_image)"
    last = solved[-1]
    if last["passed"] is None:
        return f"n {last['n']}: nobody checked the solution"
    if last["p"] * last["q"] != ranks:
        took = f"{last['p'] * last['q']} rank(s) in {last['p']} x {last['q']}"
        return f"n {last['n']}: {took} took part, {ranks} were asked for"
    if not _agrees(last):
        return f"n {last['n']}: {last['gflops']:g} Gflop/s do not follow from {last['seconds']:g} s"
    return ""


def _agrees(item: Solved) -> bool:
    """Return whether rate and time of a row agree within what was rounded."""
    work = (2 / 3 * item["n"] ** 3 + 3 / 2 * item["n"] ** 2) / 1e9
    least, most = item["seconds"] - _HUNDREDTH, item["seconds"] + _HUNDREDTH
    slowest = work / most * (1 - _ROUNDED)
    return item["gflops"] >= slowest and (least <= 0 or item["gflops"] <= work / least * (1 + _ROUNDED))
