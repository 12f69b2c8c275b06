# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""The data of an nccl-tests run, and the position and precision of its printed rows."""

from __future__ import annotations

import math
from typing import Any, NamedTuple


class Printed(NamedTuple):
    """A row as printed.

    Attributes:
        line: number of its first line in the text, starting at 1; 0 if unknown.
        text: that line.
        units: for out-of-place and in-place, half a unit of the last printed digit of time_us, algbw and busbw.
        bad: messages about problems with single cells.
    """

    line: int
    text: str
    units: tuple[dict[str, float], dict[str, float]]
    bad: tuple[str, ...]


def half_unit(text: str) -> float:
    """Return half a unit of the last digit of a printed number: 0.005 for "13.67", 5e5 for "2.0e+07"."""
    if text.isascii() and text.replace(".", "", 1).isdigit():
        point = text.find(".")
        return 0.5 * 10.0 ** (point + 1 - len(text) if point >= 0 else 0)
    mantissa, _, exponent = text.lower().partition("e")
    try:
        return 0.5 * 10.0 ** (int(exponent or 0) - len(mantissa.partition(".")[2]))
    except (OverflowError, ValueError):
        return math.inf


def printed_row(run: dict[str, Any], row: int) -> Printed:
    """Return a row of a run as printed; the run must still have its key "seen"."""
    printed = run["seen"]["printed"]
    return printed[row] if row < len(printed) else Printed(0, "", ({}, {}), ())


Run = dict[str, Any]


def new_run() -> Run:
    """Return an empty run: all keys of the output format, and under "seen" the data for consistency checks."""
    return {
        "program": None,
        "nccl_tests_version": None,
        "nccl_version": None,
        "ranks": None,
        "nodes": None,
        "hosts": [],
        "devices": [],
        "columns": [],
        "rows": [],
        "avg_busbw": None,
        "out_of_bounds": None,
        "checked": False,
        "errors": [],
        "warnings": [],
        "cpu_time": False,
        "groups": 1,
        "contradictions": [],
        "fabric": {},
        "outcome": "no-data",
        "seen": {
            "start": None,
            "rank_lines": {},
            "groups": [],
            "repeated_ranks": 0,
            "named": False,
            "devices": False,
            "elided": False,
            "placeholders": False,
            "reduced": None,
            "failures": [],
            "failed_words": False,
            "broken_rows": 0,
            "check": "",
            "begun": False,
            "text": False,
            "printed": [],
            "strange_footer": [],
        },
    }
