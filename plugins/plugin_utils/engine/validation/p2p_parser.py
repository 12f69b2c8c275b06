# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""Parse the output of p2pBandwidthLatencyTest from the CUDA samples."""

from __future__ import annotations

import re
from typing import Any

from .matrix_parser import Grid, blank, lines_of, read_links

PROGRAM = "p2pBandwidthLatencyTest"

_DEVICE = re.compile(r"\s*Device:\s*(\d+),\s*(.+?),\s*pciBusID")
_NO_ACCESS = re.compile(r"\s*Device=(\d+)\s+CANNOT Access Peer Device=(\d+)")
_BANDWIDTH = re.compile(
    r"\s*(Unidirectional|Bidirectional) P2P=(Enabled|Disabled) Bandwidth\b(?:.*\((P2P (?:Writes|Reads))\))?"
)
_LATENCY = re.compile(r"\s*P2P=(Enabled|Disabled) Latency\b(?:.*\((P2P (?:Writes|Reads))\))?.*\(us\)")
_CONNECTIVITY = re.compile(r"\s*P2P Connectivity Matrix")
_END = re.compile(r"\s*NOTE: The CUDA Samples are not meant for performance")
_ERROR = re.compile(
    r"Cuda failure|CUDA error|\bSegmentation fault\b|\bBus error\b|command not found|No such file or directory"
    r"|error while loading shared|no CUDA-capable device|\bsrun: error:|\bslurmstepd(?:-[\w.-]+)?: error:|CANCELLED AT",
    re.IGNORECASE,
)
# All releases print these matrices. If all are present, the output is complete even without its last line.
_PARTS = (
    "unidirectional, P2P disabled",
    "unidirectional, P2P enabled",
    "bidirectional, P2P disabled",
    "bidirectional, P2P enabled",
    "GPU latency, P2P disabled",
    "GPU latency, P2P enabled",
)
_NEEDED = "unidirectional, P2P enabled"


def read_p2p(text: str) -> dict[str, Any]:
    """Return the parsed output in the format of matrix_parser.blank. It never raises."""
    lines = lines_of(text)
    found = blank(PROGRAM)
    found["links"] = read_links(lines)
    grid: Grid | None = None
    whole = False
    for line in lines:
        whole = whole or bool(_END.match(line))
        opened = _opened(line)
        if opened is not None:
            _closed(grid, found)
            grid = opened
            continue
        grid = _in_grid(line, grid, found)
        _aside(line, found)
    _closed(grid, found)
    _check_whole(found, whole=whole)
    return found


def _opened(line: str) -> Grid | None:
    """Return a new matrix if the line is the heading of one, otherwise None."""
    if match := _BANDWIDTH.match(line):
        way, p2p, how = match.group(1).lower(), match.group(2).lower(), match.group(3)
        reads = ", reads" if how == "P2P Reads" else ""
        return Grid(f"{way}, P2P {p2p}{reads}", "GB/s", "pairs", p2p=p2p == "enabled")
    if match := _LATENCY.match(line):
        reads = ", reads" if match.group(2) == "P2P Reads" else ""
        return Grid(f"GPU latency, P2P {match.group(1).lower()}{reads}", "us", "latency", p2p=False)
    return Grid("connectivity", "", "connectivity", p2p=False) if _CONNECTIVITY.match(line) else None


def _in_grid(line: str, grid: Grid | None, found: dict[str, Any]) -> Grid | None:
    """Add a line to the open matrix, and return the matrix that is open afterwards."""
    words = line.split()
    if grid is None or not words:
        return grid
    if words[0] in {"D\\D", "GPU", "CPU"} and len(words) > 1:
        if words[0] == "CPU" and grid.about["what"] == "latency":
            _closed(grid, found)
            title = str(grid.about["title"]).replace("GPU latency", "CPU latency")
            grid = Grid(title, "us", "latency", p2p=False)
        grid.head(words[1:])
    elif grid.full and words[0].isdecimal() and len(words) == len(grid.columns) + 1:
        grid.problem = grid.problem or "more rows than columns"
    else:
        grid.row(words)
    return grid


def _closed(grid: Grid | None, found: dict[str, Any]) -> None:
    if grid is not None:
        grid.close(found)


def _aside(line: str, found: dict[str, Any]) -> None:
    """Process a line outside of the matrices."""
    if match := _DEVICE.match(line):
        found["devices"].append(match.group(2))
    elif match := _NO_ACCESS.match(line):
        pair = sorted((int(match.group(1)[:4]), int(match.group(2)[:4])))
        note = f"GPU {pair[0]} and GPU {pair[1]} have no direct access to each other"
        if note not in found["notes"]:
            found["notes"].append(note)
    elif _ERROR.search(line) and len(found["errors"]) < 10:  # noqa: PLR2004 - ten errors are enough
        found["errors"].append(line.strip()[:200])


def _check_whole(found: dict[str, Any], *, whole: bool) -> None:
    """Add an error for each missing part of the output."""
    sizes = {len(matrix["columns"]) for matrix in found["matrices"]}
    found["matrices"] = [matrix for matrix in found["matrices"] if matrix["what"] != "connectivity"]
    titles = {matrix["title"] for matrix in found["matrices"]}
    if found["errors"]:
        return
    if not titles:
        found["errors"].append(f"the output contains no results of {PROGRAM}")
    elif missing := [part for part in _PARTS if part not in titles and (not whole or part == _NEEDED)]:
        found["errors"].append(f"the output is incomplete: {', '.join(missing)} is missing")
    elif len(sizes) > 1:
        found["errors"].append(f"the matrices have different sizes: {', '.join(map(str, sorted(sizes)))}")
    elif found["devices"] and len(found["devices"]) not in sizes:
        listed = len(found["devices"])
        found["errors"].append(f"the matrices have {sizes.pop()} devices (expected {listed}, from the device list)")
