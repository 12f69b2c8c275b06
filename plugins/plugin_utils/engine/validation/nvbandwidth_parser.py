# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""Parse the output of nvbandwidth: text, or JSON (option -j)."""

from __future__ import annotations

import json
import math
import re
from typing import Any

from .matrix_parser import Grid, blank, lines_of, read_cells, read_links

PROGRAM = "nvbandwidth"

_VERSION = re.compile(r"\s*nvbandwidth Version:\s*(\S+)")
_DEVICE = re.compile(r"\s*Device (\d+): (.+?)(?: \([0-9a-fA-F]{8}:.*\))?\s*$")
_RUNNING = re.compile(r"\s*Running ([a-z][a-z0-9_]{2,80})\.\s*$")
_HEADING = re.compile(r"\s*((?:memcpy|memory latency|device local|latency)\b.*\((GB/s|ns|us)\)):?\s*$", re.IGNORECASE)
_SUM = re.compile(r"\s*SUM\s+(\S+)\s+(\S+)\s*$")
_WAIVED = re.compile(r"\s*Waived:")
_WRONG = re.compile(r"Invalid value when checking the pattern")
_ERROR = re.compile(
    r"\s*(?:\[?ERROR\]?:|Error:)|CUDA_ERROR|\bASSERT in expression\b|\bSegmentation fault\b|command not found"
    r"|No such file or directory|error while loading shared|\bsrun: error:|\bslurmstepd(?:-[\w.-]+)?: error:"
    r"|CANCELLED AT|Not Found"
)
_MOST_ERRORS = 10
# Cells and sums are printed with two decimals, or with six digits in total.
_DIGIT = 0.01
_SIXTH_DIGIT = 1e-5


def read_nvbandwidth(text: str) -> dict[str, Any]:
    """Return the parsed output in the format of matrix_parser.blank. It never raises."""
    lines = lines_of(text)
    found = blank(PROGRAM)
    found["links"] = read_links(lines)
    start = next((number for number, line in enumerate(lines) if line.lstrip().startswith("{")), None)
    if start is None:
        _read_text(lines, found)
    else:
        _read_json("\n".join(lines[start:]).lstrip(), found)
    found["wrong"] = list(dict.fromkeys(line.strip()[:200] for line in lines if _WRONG.search(line)))[:_MOST_ERRORS]
    if not found["matrices"] and not found["errors"]:
        found["errors"].append(f"the output contains no results of {PROGRAM}")
    return found


def _grid(name: str, heading: str, unit: str) -> Grid:
    """Return an empty matrix: GPU by GPU, or one row for the host or for all GPUs."""
    pairs = "GPU(row)" in heading
    what = "latency" if unit != "GB/s" and pairs else "each" if not pairs else "pairs"
    part = next((word for word in ("Read1", "Read2", "Write1", "Write2", "Total") if word in heading.split()), "")
    title = f"{name}, {part.lower()}" if part else name
    return Grid(title, unit, what, p2p=what == "pairs" and name.startswith("device_to_device"))


def _read_text(lines: list[str], found: dict[str, Any]) -> None:
    name, grid, empty = "", None, False
    for line in lines:
        if match := _RUNNING.match(line):
            _end(grid, found)
            if empty:
                found["errors"].append(f"{name}: the test printed nothing")
            name, grid, empty = match.group(1), None, True
        elif match := _HEADING.match(line):
            _end(grid, found)
            grid, empty = _grid(name or "nvbandwidth", match.group(1), match.group(2)), False
        elif match := _SUM.match(line):
            _sum(grid, match.group(2), found)
            grid = None
        elif _WAIVED.match(line):
            found["notes"].append(f"{name}: waived, because it does not apply to these GPUs")
            empty = False
        else:
            _aside(line, grid, found)
    _end(grid, found)
    if empty:
        found["errors"].append(f"{name}: the test printed nothing")


def _aside(line: str, grid: Grid | None, found: dict[str, Any]) -> None:
    """Process a line inside the open matrix or between matrices."""
    words = line.split()
    if match := _VERSION.match(line):
        found["version"] = match.group(1)
    elif match := _DEVICE.match(line):
        found["devices"].append(match.group(2))
    elif _ERROR.search(line) and len(found["errors"]) < _MOST_ERRORS:
        found["errors"].append(line.strip()[:200])
    elif grid is not None and words and not grid.head(words):
        grid.row(words)


def _end(grid: Grid | None, found: dict[str, Any]) -> None:
    """Discard a matrix that ends without a sum, and record an error."""
    if grid is None:
        return
    before = len(found["errors"])
    grid.close(found)
    if len(found["errors"]) == before:
        found["matrices"].pop()
        found["errors"].append(f"{grid.about['title']}: the sum after its rows is missing")


def _sum(grid: Grid | None, stated: str, found: dict[str, Any]) -> None:
    """Complete a matrix at its SUM line, and record an error if the sum does not match its cells."""
    if grid is None:
        return
    before = len(found["matrices"])
    grid.close(found)
    if len(found["matrices"]) > before:
        _check_sum(found, stated)


def _check_sum(found: dict[str, Any], stated: object) -> None:
    """Record an error if the sum of the last matrix does not match its cells."""
    matrix = found["matrices"][-1]
    cells = [cell or 0.0 for row in matrix["values"] for cell in row]
    total = sum(cells)
    try:
        wanted = float(str(stated))
    except ValueError:
        wanted = math.nan
    if not abs(total - wanted) <= _DIGIT * len(cells) + _SIXTH_DIGIT * total:
        found["matrices"].pop()
        found["errors"].append(f"{matrix['title']}: the sum of its cells is {total:.2f} (expected {str(stated)[:20]})")


def _read_json(text: str, found: dict[str, Any]) -> None:
    try:
        data, _end_at = json.JSONDecoder().raw_decode(text)
    except (ValueError, RecursionError):
        found["errors"].append("the JSON is incomplete")
        return
    own = data.get(PROGRAM) if isinstance(data, dict) else None
    if not isinstance(own, dict):
        found["errors"].append(f"the JSON is not from {PROGRAM}")
        return
    found["version"] = str(own["version"])[:80] if own.get("version") else None
    devices = own.get("GPU Device list")
    found["devices"] = [str(item)[:200] for item in devices] if isinstance(devices, list) else []
    for key, place in (("error", "errors"), ("warning", "notes")):
        if own.get(key):
            found[place].append(str(own[key])[:200])
    cases = own.get("testcases")
    for case in cases if isinstance(cases, list) else []:
        _case(case, found)


def _case(case: object, found: dict[str, Any]) -> None:
    """Add one test case of the JSON."""
    if not isinstance(case, dict):
        found["errors"].append("a test case is not an object")
        return
    name, status = str(case.get("name") or "a test case")[:80], str(case.get("status") or "no status")[:40]
    heading = str(case.get("bandwidth_description") or "")
    if status == "Waived":
        found["notes"].append(f"{name}: waived, because it does not apply to these GPUs")
    elif status != "Passed":
        found["errors"].append(f"{name}: {status}{': ' + str(case['error'])[:160] if case.get('error') else ''}")
    elif (rows := _rows(case.get("bandwidth_matrix"))) is None:
        found["errors"].append(f"{name}: its matrix contains cells that are not numbers")
    else:
        unit = next((word for word in ("GB/s", "ns", "us") if f"({word})" in heading), "GB/s")
        grid = _grid(name, heading, unit)
        grid.head([str(number) for number in range(len(rows[0]))])
        grid.rows = rows if len(rows) == grid.wanted else rows[: min(len(rows), grid.wanted - 1)]
        before = len(found["matrices"])
        grid.close(found)
        if len(found["matrices"]) > before and "sum" in case:
            _check_sum(found, case["sum"])


def _rows(matrix: object) -> list[list[float | None]] | None:
    """Return the rows of a matrix in the JSON, where cells are strings; None if it is malformed."""
    if not isinstance(matrix, list) or not matrix or not all(isinstance(row, list) and row for row in matrix):
        return None
    rows = [read_cells([str(cell) for cell in row]) for row in matrix]
    known = [row for row in rows if row is not None]
    return known if len(known) == len(rows) and len({len(row) for row in known}) == 1 else None
