# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""Patterns for lines and cells of nccl-tests, and for labels that launchers and log collectors put before lines.

A label is detected as the text before a line whose beginning is known. All other lines are expected to have the same
label except for digits and spaces, which may be times, ranks, line numbers or host names.
"""

from __future__ import annotations

import math
import re
from typing import NamedTuple

TYPES = (
    "int8|char|uint8|int32|int|uint32|int64|uint64|half|float16|float32|float64|float|double|bfloat16|bf16"
    "|f8e4m3|f8e5m2|fp8_e4m3|fp8_e5m2"
)
OPERATORS = frozenset({"sum", "prod", "max", "min", "avg", "mulsum", "none", "all"})

# Start of a line of NCCL, up to its log level; newer versions print the time first.
LIBRARY_HEAD = re.compile(r"[ \t]*(?:\[[^\]]*\] )?([A-Za-z][\w.-]*):\d+:\d+ \[\d+")

# Numbers in a header fit into 64 bits.
START = re.compile(
    r"\bnThread\s+(?P<threads>\d{1,19})\s+nGpus\s+(?P<gpus>\d{1,19})\s+minBytes\s+(?P<min>\d{1,19})\s+"
    r"maxBytes\s+(?P<max>\d{1,19})(?!\d)(?:\s+step:?\s+(?P<step>\d{1,19})(?!\d)\s*\(?(?P<unit>factor|bytes)?)?"
)
TESTS_VERSION = re.compile(r"\bnccl-tests version\s+(\S+(?:\s\([0-9a-f]+\))?)")
LIBRARY_VERSION = re.compile(r"\bNCCL version:?\s+(\d\S*)")
STARTING = re.compile(r"Collective test (starting|concluded):\s*(\w+)")
PROGRAMS = "all_reduce|all_gather|broadcast|reduce_scatter|reduce|alltoallv|alltoall|scatter|gather|sendrecv|hypercube"
PROGRAM = re.compile(rf"(?<![A-Za-z0-9_])({PROGRAMS})_perf(?![A-Za-z0-9])")
RANK = re.compile(
    r"\bRank\s+(?P<rank>\d+)(?:\s+Group\s+(?P<group>\d+))?(?:\s+Pid\s+(?P<pid>\d+))?\s+on\s+(?P<host>\S+)"
    r"\s+device\s+(?P<device>\d+)\s+\[(?P<bus>[^\]]*)\]\s*(?P<name>.*?)(?=\s*(?:\.\.\.|\#\s+Rank|\s*$))"
)
HEAD = re.compile(r"^\s*#?\s*(?P<columns>(?:size|bytes)\s+(?:count|N)\s+type\b.*?\b(?:cpu)?time\b.*\bbusbw\b.*)$")
ROW = re.compile(rf"^\s*(?P<size>\d+)\s+(?P<count>\d+)\s+(?P<type>{TYPES})(?=\s|$)(?P<rest>.*)$")
# Known beginnings of lines; the text before them is a label.
KNOWN = re.compile(
    rf"""
      nThread\s+\d+\s+nGpus\b | Rank\s+\d+\s+(?:Group\s|Pid\s|on\s+\S+\s+device\s)
    | (?:size|bytes)\s+(?:count|N)\s+type\b | (?<![\w.])\d+[ \t]+\d+[ \t]+(?:{TYPES})(?=\s|$)
    | Out\sof\sbounds\svalues\s*: | Avg\sbus\sbandwidth\s*:
    | (?<=\#[ ])nccl-tests\sversion\s | Collective\stest\s(?:starting|concluded):
    """,
    re.VERBOSE,
)
OUT_OF_BOUNDS = re.compile(r"Out of bounds values\s*:\s*(?P<count>\S+)(?:\s+(?P<word>OK|FAILED))?")
AVERAGE = re.compile(r"Avg bus bandwidth\s*:\s*(?P<value>\S+)(?:\s+(?P<word>OK|FAILED))?")
REDUCING = re.compile(r"Reducing maxBytes to (\d+)")
LIBRARY_ERROR = re.compile(r"^\s*#\s*error:\s*(\S.*)$")
ELIDED = re.compile(r"^\s*#?\s*(?:\.{3,}|\u2026|\[\.\.\.\]|<snip>)\s*$")
FAILURE = re.compile(
    r"""
      Test\s(?:NCCL|CUDA)\sfailure | Test\sfailure\s\S+:\d+ | Test\stimeout | \b(?:Cuda|NCCL)\sfailure\s\S+:\d+
    | \bsrun:\serror: | \bslurmstepd(?:-[\w.-]+)?:\serror:\s(?:\*\*\*|pyxis:) | \bsbatch:\serror:
    | \b(?:mpirun|mpiexec|prterun)\snoticed\sthat | \bprterun\sdetected\sthat
    | Primary\sjob\s+terminated\snormally,\sbut
    | \bSegmentation\sfault\b | \bBus\serror\b | terminate\scalled\safter | \bMPI_ABORT\swas\sinvoked | MPI_Abort\(
    | Invalid\snumber\sof\sGPUs: | invalid\ssizes?\s(?:specified\s)?for\s'
    | \bTraceback\s\(most\srecent | command\snot\sfound | error\swhile\sloading\sshared\slibraries
    | There\sare\snot\senough\sslots | ORTE\shas\slost | PMIX\sERROR:\s | \bCANCELLED\sAT\b
    | \bexited\son\ssignal\s\d+ | Permission\sdenied\s\(publickey | execve\(\):
    """,
    re.VERBOSE,
)

_CELL = re.compile(r"[+-]?(?:\d+(?:\.\d*)?(?:[eE][+-]?\d+)?|\.\d+|inf|nan|nan\(\S*\))|N/A|\d*X[\dX.]*")
# A count directly before a line of NCCL or nccl-tests, which begins with a host name and a colon.
_GLUED_COUNT = re.compile(r"\d+(?=[A-Za-z][\w.-]*:)")
_MAX_INT_DIGITS = 30


class Cell(NamedTuple):
    """A cell of a row: its text, its number (None for N/A and placeholders), and whether it was the whole token."""

    text: str
    value: float | None
    whole: bool


class Layout(NamedTuple):
    """The columns of a table according to its header: those before the halves, and those of a half."""

    columns: list[str]
    redop: bool
    root: bool
    half: list[str]
    milliseconds: bool

    @property
    def check(self) -> str:
        """The type of the correctness column: wrong (a count), error (a difference), or empty."""
        return next((c for c in ("wrong", "error") if c in self.half), "")


def read_cell(token: str) -> Cell | None:
    """Return the cell in a token, or None if it is not a cell.

    A count may be directly followed by the output of another process ("0host7: ..."). Printed numbers have no leading
    zeros, so "038dcf" is the number 0 and text of another process.
    """
    match = _CELL.fullmatch(token)
    if match is None:
        glued = _GLUED_COUNT.match(token)
        if glued is None:
            return None
        digits = glued.group()
        return Cell(token, 0.0 if digits.startswith("0") else float(digits[:_MAX_INT_DIGITS]), whole=False)
    if match.group() == "N/A" or "X" in token:
        return Cell(token, None, whole=True)
    try:
        return Cell(token, float(token), whole=True)
    except ValueError:
        return Cell(token, math.nan, whole=True)


def read_layout(columns: str) -> Layout:
    """Return the layout of a header line.

    Args:
        columns: the header line as printed, from "size" on.
    """
    names = columns.replace("#wrong", "wrong").split()
    times = [i for i, name in enumerate(names) if name in {"time", "cputime"}]
    first = times[0] if times else len(names)
    second = times[1] if len(times) > 1 else len(names)
    half = ["error" if name == "res" else name for name in names[first:second]]
    left = names[:first]
    return Layout(
        columns=columns.split(),
        redop="redop" in left or "op" in left,
        root="root" in left,
        half=half,
        milliseconds="res" in names,
    )


_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
_PARTS = re.compile(r"(\d+(?:\.\d+)?|\s+)")
_NUMBER = r"\d+(?:\.\d+)?"
# A text without any of these characters could be the numbers of a table.
_UNLIKE_FIGURES = re.compile(r"[^\d\s.eE+-]")
# NCCL starts its lines with HOST:PID:TID and the device, which must not be mistaken for a label.
_NOT_A_HOST = r"(?!\d+:\d+ \[)"
_LONGEST = 300
_MOST = 16


class _Label(NamedTuple):
    """Patterns of a label at the start of a line and, if unambiguous, within a line."""

    start: re.Pattern[str]
    inside: re.Pattern[str] | None


class Labels:
    """The labels of an output, learned while its lines are read."""

    def __init__(self, known: re.Pattern[str]) -> None:
        """Start without labels.

        Args:
            known: function that finds the known beginning of a line, without a preceding "#".
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
        """Return a line from strip() without labels in the middle.

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
                # A number that fills its column follows without a space.
                template += r"\s*" if after[:1].isdigit() and not before[:1].isdigit() else r"\s+"
            else:
                template += _NUMBER if segment[0].isdigit() else re.escape(segment)
        if label[-1].isalnum():
            template += r"(?![\w.])"
        # A label that starts with a digit cannot be distinguished from the number before it.
        safe = not label[0].isdigit() and _UNLIKE_FIGURES.search(label) is not None
        inside = re.compile(rf"(?<![^\W\d]){template}{_NOT_A_HOST}") if safe else None
        self._labels.insert(0, _Label(re.compile(rf"[ \t]*{template}"), inside))


def bare(line: str) -> str:
    """Return a line without colours and carriage returns."""
    if "\x1b" in line:
        line = _ANSI.sub("", line)
    return line.rstrip("\r\n").replace("\r", " ")


def _plausible(label: str) -> bool:
    """Return whether a text is a label rather than the end of a row without a line break."""
    return len(label) <= _LONGEST and (bool(_UNLIKE_FIGURES.search(label)) or len(label.split()) == 1)
