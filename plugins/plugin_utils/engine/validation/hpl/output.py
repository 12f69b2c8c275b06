# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""Reads what High-Performance Linpack printed, by itself or as a part of HPC Challenge.

A run is a line such as ``WR11C2R4  200  80  1  1  0.00  1.513e+00`` (HPL 2.3, testing/ptest/HPL_pdtest.c), after which
the rate of each GPU may stand in brackets, and the line of its residual, which ends with PASSED or FAILED.
"""

from __future__ import annotations

import re
from typing import TypedDict

__all__ = ["Solved", "read_hpl"]

_NUMBER = r"\d+\.?\d*(?:e[+-]?\d+)?"
_RUN = re.compile(rf"^(W\w{{2,15}})((?:\s+\d{{1,9}}){{4}})\s+({_NUMBER})\s+({_NUMBER})(?:\s+\(\s*{_NUMBER}\s*\))?\s*$")
_RESIDUAL = re.compile(rf"^\|\|Ax-b\|\|_oo\s*/\s*\(.*\)\s*=\s*({_NUMBER}|-?nan|inf)\s*\.+\s*(PASSED|FAILED)\s*$")
_TASK = re.compile(r"^\s*\d{1,6}:\s")


class Solved(TypedDict):
    """A system that was solved: seconds, Gflop/s of all ranks, and whether its residual passed, None where unsaid."""

    variant: str
    n: int
    nb: int
    p: int
    q: int
    seconds: float
    gflops: float
    residual: str
    passed: bool | None


def read_hpl(text: str) -> list[Solved]:
    """Return the systems that were solved, in order; it never raises."""
    found: list[Solved] = []
    for raw in text.splitlines():
        line = _TASK.sub("", raw)
        if run := _RUN.match(line):
            n, nb, p, q = (int(word) for word in run[2].split())
            found.append(
                {
                    "variant": run[1],
                    "n": n,
                    "nb": nb,
                    "p": p,
                    "q": q,
                    "seconds": float(run[3]),
                    "gflops": float(run[4]),
                    "residual": "",
                    "passed": None,
                }
            )
        elif found and found[-1]["passed"] is None and (check := _RESIDUAL.match(line)):
            found[-1]["residual"], found[-1]["passed"] = check[1], check[2] == "PASSED"
    return found
