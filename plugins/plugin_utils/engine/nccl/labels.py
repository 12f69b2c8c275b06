# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""Remove the labels that launchers and log collectors put before lines.

Labels are learned, not listed. Some lines of a program have a known beginning; the text before it is a label. The other
lines have the same label, except for digits and blanks: times, ranks, line numbers, host names with a number.
"""

from __future__ import annotations

import re
from typing import NamedTuple

__all__ = ["Labels", "bare"]

_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
_PARTS = re.compile(r"(\d+(?:\.\d+)?|\s+)")
_NUMBER = r"\d+(?:\.\d+)?"
# A text without any of these could be the numbers of a table.
_UNLIKE_FIGURES = re.compile(r"[^\d\s.eE+-]")
# NCCL starts its lines with HOST:PID:TID and the device, so a label can look like their beginning.
_NOT_A_HOST = r"(?!\d+:\d+ \[)"
_LONGEST = 300
_MOST = 16


class _Label(NamedTuple):
    """Patterns of a label at the start of a line, and within a line where that is safe."""

    start: re.Pattern[str]
    inside: re.Pattern[str] | None


class Labels:
    """The labels of an output, learned while its lines are read."""

    def __init__(self, known: re.Pattern[str]) -> None:
        """Start without labels.

        Args:
            known: finds the known beginning of a line, without a "#" before it.
        """
        self._known = known
        self._labels: list[_Label] = []
        self._own = ""

    def strip(self, line: str) -> str:
        """Return a line without its label."""
        end = line.find(" NCCL ")
        known = self._known.search(line, 0, len(line) if end < 0 else end)
        self._own = ""
        if known is not None:
            label = line[: known.start()].rstrip()
            label = label.removesuffix("#").rstrip()
            if not label:
                return line
            if _plausible(label):
                self._learn(label)
                self._own = label.strip()
                return line[len(label) :]
        for each in self._labels:
            match = each.start.match(line)
            if match is not None:
                self._own = match.group().strip()
                return line[match.end() :]
        return line

    def strip_inside(self, line: str) -> str:
        """Return a line from strip without the labels within it.

        MPI launchers label each write, and nccl-tests writes a row in three parts.
        """
        if _UNLIKE_FIGURES.search(self._own):
            line = re.sub(re.escape(self._own) + _NOT_A_HOST, "", line)
        for each in self._labels:
            if each.inside is not None:
                line = each.inside.sub("", line)
        return line

    def _learn(self, label: str) -> None:
        label = label.strip()
        if len(self._labels) >= _MOST or any(each.start.fullmatch(label) for each in self._labels):
            return
        segments = [segment for segment in _PARTS.split(label) if segment]
        template = ""
        for before, segment, after in zip(["", *segments], segments, [*segments[1:], ""]):
            if segment.isspace():
                # A number may fill its column.
                template += r"\s*" if after[:1].isdigit() and not before[:1].isdigit() else r"\s+"
            else:
                template += _NUMBER if segment[0].isdigit() else re.escape(segment)
        if label[-1].isalnum():
            template += r"(?![\w.])"
        # A label that starts with a digit is indistinguishable from the number before it.
        safe = not label[0].isdigit() and _UNLIKE_FIGURES.search(label) is not None
        inside = re.compile(rf"(?<![^\W\d]){template}{_NOT_A_HOST}") if safe else None
        self._labels.insert(0, _Label(re.compile(rf"[ \t]*{template}"), inside))


def bare(line: str) -> str:
    """Return a line without colours and carriage returns."""
    if "\x1b" in line:
        line = _ANSI.sub("", line)
    return line.rstrip("\r\n").replace("\r", " ")


def _plausible(label: str) -> bool:
    """Return whether a text can be a label, and not the end of a row without its line end."""
    return len(label) <= _LONGEST and (bool(_UNLIKE_FIGURES.search(label)) or len(label.split()) == 1)
