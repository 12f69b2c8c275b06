# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""Parse bandwidth matrices and nvidia-smi's topology: code shared by the parsers of the GPU copy programs."""

from __future__ import annotations

import math
import re
from typing import Any

from ..nccl.line_patterns import Labels, bare

_MOST_LINES = 200_000
_LONGEST = 4096
_MOST_GPUS = 64
_KNOWN = re.compile(
    r"\[P2P \(Peer|\bnvbandwidth Version:|\bDevice:?[ ]\d+[:,]|\b(?:Uni|Bi)directional P2P=|\bRunning [a-z]\w+\.$"
)
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*(?:[eE][+-]?\d+)?|inf|nan)", re.IGNORECASE)
_GPU = re.compile(r"GPU(\d{1,3})")
_LINK = re.compile(r"X|NV\d{1,3}|NVL\d*|PIX|PXB|PHB|NODE|SYS|SOC|PIX/NV\d+|N/A|NS|OK")


def lines_of(text: str) -> list[str]:
    """Return the lines of an output without terminal codes and launcher labels."""
    labels = Labels(_KNOWN)
    return [labels.strip(bare(line[:_LONGEST])).rstrip() for line in text.splitlines()[:_MOST_LINES]]


def read_cells(words: list[str]) -> list[float | None] | None:
    """Return the cells of a row, with None for ``N/A``; None if any cell is not a finite number of at least 0."""
    cells: list[float | None] = []
    for word in words:
        if word in {"N/A", "-"}:
            cells.append(None)
            continue
        value = float(word) if _NUMBER.fullmatch(word) else math.nan
        if not math.isfinite(value) or value < 0:
            return None
        cells.append(value)
    return cells


def blank(program: str) -> dict[str, Any]:
    """Return the empty result of a parsed output.

    Returns:
        program, version, devices (names), matrices, links (label of ``nvidia-smi topo -m`` by pair, such as "0-1"),
        notes (omitted parts, pairs without access), wrong (messages about corrupt data) and errors (why the output is
        incomplete). A matrix has title, unit (GB/s, us, ns or none), what (pairs, each or latency), p2p (whether a
        profile's floor applies), rows and columns (labels), and values (None if not measured).
    """
    found: dict[str, Any] = {"program": program, "version": None, "devices": [], "matrices": [], "links": {}}
    return found | {"notes": [], "wrong": [], "errors": []}


class Grid:
    """A matrix that is read row by row, after a header of columns."""

    def __init__(self, title: str, unit: str, what: str, *, p2p: bool) -> None:
        """Start an empty matrix."""
        self.about: dict[str, Any] = {"title": title, "unit": unit, "what": what, "p2p": p2p}
        self.columns: list[int] = []
        self.rows: list[list[float | None]] = []
        self.problem = ""

    @property
    def wanted(self) -> int:
        """Number of expected rows: one per column, or one for values of the host or of all GPUs."""
        return 1 if self.about["what"] == "each" else len(self.columns)

    @property
    def full(self) -> bool:
        """Whether all rows have been read."""
        return bool(self.columns) and len(self.rows) >= self.wanted

    def head(self, words: list[str]) -> bool:
        """Read the column header, and return whether the line was one."""
        known = [int(word) for word in words if word.isdecimal() and len(word) < 4]  # noqa: PLR2004 - a GPU's number
        if self.columns or len(known) != len(words) or known != list(range(len(known))) or not known:
            return False
        if len(known) > _MOST_GPUS:
            self.problem = self.problem or f"{len(known)} columns, more than {_MOST_GPUS} GPUs"
            return False
        self.columns = known
        return True

    def row(self, words: list[str]) -> bool:
        """Read a row, which starts with its index, and return whether the line was a row, valid or not."""
        if not self.columns or self.full or not words[0].isdecimal() or len(words) < 2:  # noqa: PLR2004 - number, cell
            return False
        cells = read_cells(words[1:])
        if int(words[0][:9]) != len(self.rows):
            self.problem = self.problem or f"row {words[0][:9]} (expected row {len(self.rows)})"
        elif cells is None:
            self.problem = (
                self.problem or f"row {len(self.rows)} contains non-numeric cells: {' '.join(words[1:])[:80]}"
            )
        elif len(cells) != len(self.columns):
            self.problem = self.problem or f"row {len(self.rows)} has {len(cells)} cells (expected {len(self.columns)})"
        else:
            self.rows.append(cells)
            return True
        return True

    def close(self, found: dict[str, Any]) -> None:
        """Add the matrix to the result, or an error if it is incomplete."""
        title = self.about["title"]
        if self.problem:
            found["errors"].append(f"{title}: {self.problem}")
        elif not self.full:
            wanted = self.wanted if self.columns else "its"
            found["errors"].append(f"{title}: truncated after {len(self.rows)} of {wanted} rows")
        elif any(item["title"] == title for item in found["matrices"]):
            found["errors"].append(f"{title}: printed twice: the output of two runs is mixed")
        else:
            labels = [str(number) for number in self.columns]
            rows = [""] if self.about["what"] == "each" else labels
            found["matrices"].append({**self.about, "rows": rows, "columns": labels, "values": self.rows})


def read_links(lines: list[str]) -> dict[str, str]:
    """Return the label of each pair of GPUs in ``nvidia-smi topo -m``, as in {"0-1": "NV2"}; empty if missing."""
    columns: list[int] = []
    found: dict[str, str] = {}
    for line in lines:
        words = line.split()
        match = _GPU.fullmatch(words[0]) if words else None
        if match is None:
            continue
        if len(words) == 1 or not _LINK.fullmatch(words[1]):
            heads = [_GPU.fullmatch(word) for word in words]
            columns = [int(head.group(1)) for head in heads if head]
        elif columns and len(words) > len(columns):
            row = int(match.group(1))
            for column, label in zip(columns, words[1:]):
                if row < column and _LINK.fullmatch(label):
                    found[f"{row}-{column}"] = label
    return found
