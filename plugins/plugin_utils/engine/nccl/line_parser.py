# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""The line parser of nccl-tests: turns one line after another into runs."""

from __future__ import annotations

import math
from typing import Any

from . import line_patterns
from .line_patterns import Labels, bare
from .nccl_log import FabricNotes, Warned
from .run_data import OpenRow, Run, continues, new_run

MAX_ERRORS = 50
_MAX_RANKS = 1_000_000
_MAX_ERROR_TEXT = 300
_MAX_DIGITS = 30
# Each header and footer line of a table contains one of these.
_MARKS = ("nThread", "Rank", "size", "bytes", " : ", "Collective test", "nccl-tests version")

# A line of NCCL without any of these contains at most a path to a NIC; lines with either of the last two words must be
# cleaned first. The first item is the word's rarest letter: searching a text for one character is twenty times as fast.
INFORMATIVE = (
    ("U", "Using network"),
    ("U", "NET/IB : Using"),
    ("T", " via COLLNET/"),
    ("U", "GPU Direct RDMA"),
    ("V", "NVLS"),
    ("n", " nvls channels"),
    ("v", "version"),
    ("\x1b", "\x1b"),
    ("\r", "\r"),
)
_MOST_HEADS = 16384
_LONGEST_HEAD = 400
_INFO = "] NCCL INFO"


class Parser:
    """The state of the parser between two lines."""

    def __init__(self, *, numbered: bool = True) -> None:
        """Create a parser; `numbered` determines whether findings include line numbers."""
        self.runs: list[Run] = []
        self.run = new_run()
        self.layout: line_patterns.Layout | None = None
        self.row: OpenRow | None = None
        self.fabric = FabricNotes()
        self.warned = Warned()
        self.program: str | None = None
        self.line = 0
        self.step = int(numbered)
        self.labels = Labels(line_patterns.KNOWN)
        # Host by prefix of NCCL's lines: a thread starts all its lines with the same text.
        self.heads: dict[str, str] = {}

    @property
    def facts(self) -> tuple[object, ...]:
        """The facts from NCCL's lines so far; a line that does not change them can be dropped."""
        seen, run = self.run["seen"], self.run
        return (
            *self.fabric.known,
            len(self.warned.texts),
            seen["text"],
            run["nccl_version"],
            run["nccl_tests_version"],
        )

    # -- the parts of a run -------------------------------------------------------------------------------------

    @property
    def _has_table(self) -> bool:
        seen = self.run["seen"]
        return bool(self.run["rows"] or self.run["columns"] or self.row or seen["rank_lines"] or self._has_footer)

    @property
    def _has_footer(self) -> bool:
        return self.run["out_of_bounds"] is not None or self.run["avg_busbw"] is not None

    def _next_run(self) -> None:
        """Close the current run if it has begun, and start a new one."""
        self._close_row()
        if self.run["seen"]["begun"]:
            self.run["fabric"] = self.fabric.result()
            self.run["warnings"] = self.warned.texts
            self.runs.append(self.run)
            self.run = new_run()
            self.fabric = FabricNotes()
            self.warned = Warned()
        self.layout = None

    def _begin(self) -> None:
        seen = self.run["seen"]
        if not seen["begun"]:
            seen["begun"] = True
            if self.run["program"] is None:
                self.run["program"] = self.program
            self.program = None

    def _close_row(self) -> None:
        if self.row is None:
            return
        row, self.row = self.row, None
        seen = self.run["seen"]
        if any(cell.value is None and "X" in cell.text for cell in row.cells):
            seen["placeholders"] = True
            return
        problems: list[str] = []
        data = row.finish(problems)
        if data["out_of_place"] is None and data["in_place"] is None:
            row.broken = True
        seen["broken_rows"] += row.broken
        self.run["rows"].append(data)
        seen["printed"].append(row.printed)
        for problem in problems:
            self._error(problem)

    def _error(self, text: str) -> None:
        errors = self.run["errors"]
        text = text.strip()[:_MAX_ERROR_TEXT]
        if len(errors) < MAX_ERRORS and text not in errors:
            errors.append(text)

    # -- one line -----------------------------------------------------------------------------------------------

    def feed(self, raw: str) -> None:
        """Process one line."""
        self.line += self.step
        if self.is_library(raw):
            self._library(raw)
            return
        line = self.labels.strip(bare(raw))
        if not line or line.isspace():
            return
        if " NCCL INFO" in line or " NCCL WARN" in line or " NCCL TRACE" in line:
            self._library(line)
            self._row(line)
            return
        self.run["seen"]["text"] = True
        if self._row(line):
            return
        marked = "#" in line or any(word in line for word in _MARKS)
        if not (marked and (self._heading(line) or self._footer(line))):
            self._other(line)

    def feed_block(self, text: str) -> None:
        """Process complete lines, and skip NCCL's lines without new information quickly.

        Searching each line for a word is the most expensive step, so lines are searched only for words that the block
        contains.
        """
        present = [word for letter, word in INFORMATIVE if letter in text and word in text]
        via, tagged = "via NET/" in text, "<std" in text
        first, heads, ways, skipped = self.line, self.heads, self.fabric.ways, False
        lines = text.split("\n")
        lines.pop()
        for number, line in enumerate(lines, first):
            head, _level, rest = line.partition(_INFO)
            if (
                head in heads
                and not (tagged and "<std" in rest)
                and not (via and "via NET/" in rest and heads[head] + rest[rest.find("via NET/") - 1 :] not in ways)
                and not (present and any(word in line for word in present))
            ):
                skipped = True
                continue
            if skipped:
                self.run["seen"]["text"], skipped = True, False
            self.line = number * self.step
            self.feed(line)
            ways = self.fabric.ways
        if skipped:
            self.run["seen"]["text"] = True
        self.line = (first + len(lines)) * self.step

    def knows(self, line: str) -> bool:
        """Return whether a line of NCCL has the prefix of an earlier line and adds no information."""
        head, _level, rest = line.partition(_INFO)
        host = self.heads.get(head)
        if host is None or "<std" in rest:
            return False
        for _letter, word in INFORMATIVE:
            if word in rest:
                return False
        at = rest.find("via NET/")
        return at < 0 or host + rest[at - 1 :] in self.fabric.ways

    def is_library(self, raw: str) -> bool:
        """Return whether a whole line was printed by NCCL."""
        head, level, rest = raw.partition(_INFO)
        if not level:
            return False
        if head not in self.heads:
            match = line_patterns.LIBRARY_HEAD.fullmatch(self.labels.strip(head))
            if match is None:
                return False
            if len(self.heads) < _MOST_HEADS and len(head) < _LONGEST_HEAD:
                self.heads[head] = match[1]
        # Open MPI forwards partial lines, so a line of another rank may follow on the same line.
        return "\x1b" not in raw and "\r" not in raw and "<std" not in rest

    def _library(self, line: str) -> None:
        self.run["seen"]["text"] = True
        self.fabric.feed(line)
        if "NCCL WARN " in line:
            self.warned.feed(line)
        if "version" in line:
            self._version(line)

    def _row(self, line: str) -> bool:
        if self.row is not None or line_patterns.ROW.match(line):
            line = self.labels.strip_inside(line)
        match = line_patterns.ROW.match(line)
        if match is not None and len(match["size"]) <= 25 and len(match["count"]) <= 25:  # noqa: PLR2004 - 10**25 bytes
            self._close_row()
            if self._has_footer:
                self._next_run()
            self._begin()
            self.row = OpenRow(match.groupdict(), self.layout, self.line, line)
            if self.row.full:
                self._close_row()
            return True
        if self.row is not None and continues(line):
            self.row.feed(line)
            if self.row.full:
                self._close_row()
            return True
        return False

    def _heading(self, line: str) -> bool:
        return self._start(line) or self._ranks(line) or self._columns(line)

    def _start(self, line: str) -> bool:
        if "Collective test" in line:
            return self._named(line)
        if "nccl-tests version" in line:
            self._first_line()
            return self._version(line)
        match = line_patterns.START.search(line) if "nThread" in line else None
        if match is None:
            return False
        if self._has_footer or (self.run["seen"]["start"] and self._has_table):
            self._next_run()
        self._begin()
        self.run["seen"]["start"] = {key: match[key] for key in ("threads", "gpus", "min", "max", "step", "unit")}
        return True

    def _first_line(self) -> None:
        """Start a run at a line that precedes the nThread line."""
        if self.run["seen"]["start"] or self._has_table:
            self._next_run()
        self._begin()
        self.run["seen"]["named"] = True

    def _named(self, line: str) -> bool:
        """Read the program name from "Collective test starting: NAME" or "concluded: NAME"."""
        match = line_patterns.STARTING.search(line)
        if match is None:
            return False
        starting = match[1] == "starting"
        if starting:
            self._first_line()
        name = line_patterns.PROGRAM.match(match[2])
        if name is not None and (starting or self.run["program"] is None):
            self.run["program"] = f"{name[1]}_perf"
        return True

    def _ranks(self, line: str) -> bool:
        found = False
        if "Rank" in line:
            for match in line_patterns.RANK.finditer(line):
                found = True
                self._rank(match)
            if found and "..." in line:
                self.run["seen"]["elided"] = True
        return found

    def _rank(self, match: Any) -> None:  # noqa: ANN401 - a match object
        if self._has_footer:
            self._next_run()
        self._begin()
        seen = self.run["seen"]
        rank = int(match["rank"][:12])
        lines = seen["rank_lines"]
        if rank in lines:
            seen["repeated_ranks"] += 1
        elif len(lines) < _MAX_RANKS:
            lines[rank] = (match["host"], match["name"])
        if match["group"] is not None and match["group"] not in seen["groups"]:
            seen["groups"].append(match["group"])

    def _columns(self, line: str) -> bool:
        match = line_patterns.HEAD.match(line)
        if match is None:
            return False
        self._close_row()
        if self._has_footer:
            self._next_run()
        self._begin()
        self.layout = line_patterns.read_layout(match["columns"])
        self.run["columns"] = self.layout.columns
        self.run["seen"]["check"] = self.layout.check
        return True

    def _footer(self, line: str) -> bool:
        match = line_patterns.OUT_OF_BOUNDS.search(line) if "Out of bounds" in line else None
        if match is not None:
            self._close_row()
            if self._has_footer:
                self._next_run()
            self._begin()
            self._out_of_bounds(match["count"], match["word"], line)
            return True
        match = line_patterns.AVERAGE.search(line) if "Avg bus" in line else None
        if match is None:
            return False
        self._close_row()
        if self.run["avg_busbw"] is not None:
            self._next_run()
        self._begin()
        self._average(match["value"], match["word"], line)
        return True

    def _out_of_bounds(self, count: str, word: str | None, line: str) -> None:
        seen = self.run["seen"]
        if count.isascii() and count.isdigit():
            self.run["out_of_bounds"] = min(int(count[:_MAX_DIGITS]), 2**53)
            if (word == "OK") == (int(count[:_MAX_DIGITS]) > 0):
                self._note_footer(line)
        else:
            seen["placeholders"] |= count.startswith("X")
            if not count.startswith("X"):
                self._note_footer(line)
        seen["failed_words"] |= word == "FAILED"

    def _note_footer(self, line: str) -> None:
        """Record a malformed footer line, which nccl-tests cannot have printed."""
        where = f"line {self.line}: " if self.line else ""
        self.run["seen"]["strange_footer"].append(f'{where}invalid footer: "{line.strip()[:99]}"')

    def _average(self, value: str, word: str | None, line: str) -> None:
        cell = line_patterns.read_cell(value)
        if cell is None or cell.value is None:
            self.run["seen"]["placeholders"] |= value.startswith("X")
            if not value.startswith("X"):
                self._note_footer(line)
        elif cell.whole and cell.value >= 0 and math.isfinite(cell.value):
            self.run["avg_busbw"] = cell.value
        else:
            self._error(f"the average is {value}")
            self._note_footer(line)
        if word == "FAILED":
            self._error("the average is below NCCL_TESTS_MIN_BW")

    def _version(self, line: str) -> bool:
        match = line_patterns.TESTS_VERSION.search(line)
        if match is not None:
            self.run["nccl_tests_version"] = self.run["nccl_tests_version"] or match[1]
        library = line_patterns.LIBRARY_VERSION.search(line)
        if library is not None:
            self.run["nccl_version"] = self.run["nccl_version"] or library[1]
        return match is not None

    def _other(self, line: str) -> None:
        """Process a line outside of the table."""
        seen = self.run["seen"]
        if "Using devices" in line:
            seen["devices"] = True
            return
        if line_patterns.ELIDED.match(line):
            seen["elided"] = True
            return
        self._hints(line)
        match = line_patterns.LIBRARY_ERROR.match(line)
        if match is not None:
            self._error(match[1])
            if not self._has_footer:
                seen["failures"].append(match[1][:_MAX_ERROR_TEXT])
        elif line_patterns.FAILURE.search(line):
            self._error(line)
            if not self._has_footer and len(seen["failures"]) < MAX_ERRORS:
                seen["failures"].append(line.strip()[:_MAX_ERROR_TEXT])

    def _hints(self, line: str) -> None:
        """Read the program name, the library version and the reduced maximum size."""
        if "_perf" in line:
            names = line_patterns.PROGRAM.findall(line)
            if names:
                self.program = f"{names[-1]}_perf"
        if "NCCL version" in line:
            self._version(line)
        match = line_patterns.REDUCING.search(line)
        if match is not None:
            self.run["seen"]["reduced"] = int(match[1][:25])

    def finish(self) -> list[Run]:
        """Return the runs."""
        self._close_row()
        if self.run["seen"]["begun"]:
            self._next_run()
        elif not self.runs:
            self.run["program"] = self.program
            self.run["warnings"] = self.warned.texts
            self.runs.append(self.run)
        elif self.run["errors"]:
            for error in self.run["errors"]:
                if len(self.runs[-1]["errors"]) < MAX_ERRORS:
                    self.runs[-1]["errors"].append(error)
        return self.runs
