# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""The data of an nccl-tests run, and its rows as printed, even if other output interrupts a row."""

from __future__ import annotations

import math
import re
from typing import Any, NamedTuple

from .line_patterns import OPERATORS, Cell, Layout, read_cell


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


TableRow = dict[str, Any]

# Minimum number of cells in half of a row: time, algbw and busbw.
_MIN_HALF = 3
_BLANK_HALF = 28
_INTEGER = re.compile(r"-?\d+")
_DEFAULT_HALF = ["time", "algbw", "busbw", "wrong"]
_FIELDS = {
    "time": "time_us",
    "cputime": "time_us",
    "algbw": "algbw",
    "busbw": "busbw",
    "wrong": "wrong",
    "error": "wrong",
}
_TWO_HALVES = 2
_MOST_TEXT = 400


def continues(line: str) -> bool:
    """Return whether a line starts with cells, as the second part of an interrupted row does."""
    tokens = line.split(None, _MIN_HALF + 1)[: _MIN_HALF + 1]
    if len(tokens) < _MIN_HALF:
        return False
    cells = [read_cell(token) for token in tokens]
    return all(cell is not None and cell.whole for cell in cells[:_MIN_HALF])


class OpenRow:
    """A table row that may be incomplete."""

    def __init__(self, fields: dict[str, str], layout: Layout | None, line: int = 0, text: str = "") -> None:
        """Start a row.

        Args:
            fields: size, count, type and rest from a match of line_patterns.ROW.
            layout: layout of the table; None without a header.
            line: line number; 0 if unknown.
            text: the line.
        """
        self.layout = layout
        self.half_names = layout.half if layout and len(layout.half) >= _MIN_HALF else _DEFAULT_HALF
        self.line = line
        self.text = text[:_MOST_TEXT]
        self.units: tuple[dict[str, float], dict[str, float]] = ({}, {})
        self.bad: list[str] = []
        self.size = int(fields["size"])
        self.count = int(fields["count"])
        self.type = fields["type"]
        self.redop: str | None = None
        self.root: int | None = None
        self.cells: list[Cell] = []
        self.blank_first = False
        self.broken = False
        self._read_left(fields["rest"])

    @property
    def full(self) -> bool:
        """Return whether both halves are complete."""
        wanted = 1 if self.blank_first else _TWO_HALVES
        return len(self.cells) >= wanted * len(self.half_names)

    def _read_left(self, rest: str) -> None:
        """Read the columns between type and the first half, then the cells."""
        tokens = rest.split()
        if tokens and tokens[0].lower() in OPERATORS and (self.layout is None or self.layout.redop):
            self.redop = tokens.pop(0)
            rest = rest.split(self.redop, 1)[1]
        if tokens and self._has_root(tokens):
            match = _INTEGER.match(tokens[0])
            if match is None:
                return
            whole = match.end() == len(tokens[0])
            self.root = -1 if tokens[0].startswith("-") else int(match.group()[:18]) if whole else None
            rest = rest.split(tokens[0], 1)[1]
            if not whole:
                return
        self.blank_first = len(rest) - len(rest.lstrip(" ")) >= _BLANK_HALF
        self.feed(rest)

    def _has_root(self, tokens: list[str]) -> bool:
        if self.layout is not None:
            return self.layout.root
        first = tokens[0]
        return first.startswith("-") or (_INTEGER.fullmatch(first) is not None and self.redop is not None)

    def feed(self, text: str) -> bool:
        """Append the cells at the start of a text to the row, and return whether there were any."""
        wanted = _TWO_HALVES * len(self.half_names)
        if len(self.cells) % len(self.half_names):
            # nccl-tests writes a half at once. If it is incomplete, the text belongs to another row.
            return False
        taken = 0
        for token in text.split(None, wanted + 1):
            cell = read_cell(token) if len(self.cells) < wanted else None
            if cell is None:
                break
            self.cells.append(cell)
            taken += 1
            if not cell.whole:
                break
        return taken > 0

    def finish(self, problems: list[str]) -> TableRow:
        """Return the row; values that are not finite become None and are added to problems."""
        names = self.half_names
        halves = [
            self._half(self.cells[i * len(names) : (i + 1) * len(names)], problems, self.units[i])
            for i in range(_TWO_HALVES)
        ]
        if self.blank_first:
            halves = [None, halves[0]]
            self.units = (self.units[1], self.units[0])
        return {
            "size": self.size,
            "count": self.count,
            "type": self.type,
            "redop": self.redop,
            "root": self.root,
            "out_of_place": halves[0],
            "in_place": halves[1],
        }

    @property
    def printed(self) -> Printed:
        """The row as printed; valid after finish()."""
        return Printed(self.line, self.text, self.units, tuple(self.bad))

    def _half(
        self, cells: list[Cell], problems: list[str], units: dict[str, float]
    ) -> dict[str, float | int | None] | None:
        """Return one half, or None if it is missing or contains only placeholders."""
        if not cells:
            return None
        names, scale = self.half_names, self._scale
        # A damaged header may lack this column.
        if "busbw" not in names or len(cells) < max(_MIN_HALF, names.index("busbw") + 1):
            self.broken = True
            return None
        half: dict[str, float | int | None] = {"time_us": None, "algbw": None, "busbw": None, "wrong": None}
        for name, cell in zip(names, cells):
            field = _FIELDS.get(name)
            if field is None:
                continue
            value = cell.value
            if value is None or not 0 <= value < math.inf:
                value = self._unusual(field, cell, problems)
            if value is None:
                half[field] = None
            elif field == "wrong":
                half[field] = int(value) if value.is_integer() else value
            else:
                factor = scale if field == "time_us" else 1
                half[field] = value * factor
                units[field] = half_unit(cell.text) * factor
        if len(cells) < min(len(names), len(_DEFAULT_HALF)):
            self.broken = True
        return half

    @property
    def _scale(self) -> int:
        """Return the microseconds per unit of the times."""
        return 1000 if self.layout is not None and self.layout.milliseconds else 1

    def _unusual(self, field: str, cell: Cell, problems: list[str]) -> float | None:
        """Return the value of an invalid cell, None if it is missing or not finite, and record the problem."""
        if cell.value is None:
            if field != "wrong":
                self.bad.append(f"{field} is {cell.text}")
            return None
        if not math.isfinite(cell.value):
            problems.append(f"size {self.size}: {field} is {cell.text}")
            self.bad.append(f"{field} is {cell.text}")
            return None
        if cell.value < 0:
            self.bad.append(f"{field} is {cell.text}")
        return cell.value
