# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""Parse the output of all versions of nccl-tests; parsing never raises.

The result is ``{"runs": [...]}``, as printed by ``busbar nccl parse --format json``. With NCCL_DEBUG, NCCL prints a
line per connection: hundreds of megabytes with thousands of GPUs. These lines are not kept in memory, and `condensed`
removes repeated ones without changing the parsed runs.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from .json_output import parse_json
from .line_parser import Parser
from .run_data import Run, new_run
from .run_outcome import conclude

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import TextIO

# Maximum number of NCCL's warnings, and number of last lines, that `condensed` keeps.
MOST_WARNINGS = 1000
_LAST = 20
_INFORMATIVE = ("Using network", "NET/", "NVLS", "nvls", "GPU Direct RDMA", "version")


def condensed(lines: Iterable[str], begins: Callable[[str], bool], most: int) -> str:
    """Return an output without NCCL's repeated lines.

    Args:
        lines: lines with their line ends.
        begins: returns whether a line starts a part of the output that is parsed separately.
        most: maximum number of characters to keep.

    Raises:
        ValueError: the informative lines exceed `most`.
    """
    kept: list[str] = []
    last: deque[tuple[str, bool]] = deque(maxlen=_LAST)
    length, warnings = 0, 0
    parser = Parser()
    for line in lines:
        if begins(line):
            parser = Parser()
        bare = line.rstrip("\n")
        if parser.run["seen"]["text"] and parser.knows(bare):
            last.append((line, False))
            continue
        warning = " NCCL WARN" in line
        telling = not warning and not parser.is_library(bare)
        if telling:
            parser.feed(bare)
        elif warning:
            before = parser.facts
            parser.feed(bare)
            telling = warnings < MOST_WARNINGS or parser.facts != before
            warnings += 1
        elif not parser.run["seen"]["text"] or any(word in line for word in _INFORMATIVE):
            before = parser.facts
            parser.feed(bare)
            telling = parser.facts != before
        last.append((line, telling))
        if telling:
            kept.append(line)
            length += len(line)
            if length > most:
                message = f"the output has more than {most} characters even without NCCL's repeated lines"
                raise ValueError(message)
    # Keep the last lines unchanged, because admins read them first.
    known = sum(telling for _line, telling in last)
    end = [line for line, _telling in last]
    return "".join(kept[: len(kept) - known] + end)


MAX_LINE = 65536


def _blocks(text: TextIO) -> Iterator[str]:
    """Yield blocks of complete lines; a line longer than MAX_LINE is yielded in pieces without line ends."""
    rest = ""
    while block := text.read(MAX_LINE):
        block = rest + block
        cut = block.rfind("\n") + 1
        if cut and block.find("\n") >= MAX_LINE:
            yield block[:MAX_LINE]
            yield block[MAX_LINE:cut]
        elif cut:
            yield block[:cut]
        rest = block[cut:]
        if len(rest) >= MAX_LINE:
            yield rest[:MAX_LINE]
            rest = rest[MAX_LINE:]
    if rest:
        yield rest


def bounded_lines(text: TextIO) -> Iterator[str]:
    """Yield the same lines as ``text.readline(MAX_LINE)``, several times faster."""
    for block in _blocks(text):
        *lines, rest = block.split("\n")
        for line in lines:
            yield line + "\n"
        if rest:
            yield rest


def parse_stream(text: TextIO) -> dict[str, list[Run]]:
    """Return the result of ``parse_lines(bounded_lines(text))``, several times faster for verbose library output."""
    parser = Parser()
    for block in _blocks(text):
        if block.endswith("\n"):
            parser.feed_block(block)
        else:
            parser.feed(block)
    return _concluded(parser)


def parse_lines(lines: Iterable[str], *, numbered: bool = True) -> dict[str, list[Run]]:
    """Return ``{"runs": [...]}`` for the lines of one or more outputs of nccl-tests.

    Sizes are in bytes, times in microseconds, bandwidths in GB/s (10^9 bytes).

    Args:
        lines: the lines; a line longer than MAX_LINE characters counts as several.
        numbered: whether contradictions include line numbers; False if the lines are a part of a text.
    """
    parser = Parser(numbered=numbered)
    for line in lines:
        if len(line) <= MAX_LINE:
            parser.feed(line)
        else:
            for at in range(0, len(line), MAX_LINE):
                parser.feed(line[at : at + MAX_LINE])
    return _concluded(parser)


def _concluded(parser: Parser) -> dict[str, list[Run]]:
    runs = parser.finish()
    for run in runs:
        conclude(run)
    return {"runs": runs}


def parse_json_text(text: str) -> dict[str, list[Run]] | None:
    """Return ``{"runs": [...]}`` for the file that nccl-tests writes with -J, None for any other text."""
    run = parse_json(text, new_run()) if text.lstrip("\ufeff \t\r\n").startswith("{") else None
    if run is None:
        return None
    conclude(run)
    return {"runs": [run]}


def parse_text(text: str, *, numbered: bool = True) -> dict[str, list[Run]]:
    """Return ``{"runs": [...]}`` for a complete text output, or for the JSON file that nccl-tests writes with -J."""
    return parse_json_text(text) or parse_lines(text.split("\n"), numbered=numbered)
