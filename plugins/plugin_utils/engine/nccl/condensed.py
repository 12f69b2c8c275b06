# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""Reduce an output of nccl-tests to its informative lines.

With NCCL_DEBUG the library prints a line per connection, which with thousands of GPUs adds up to hundreds of megabytes
of repeated facts. The reduced output gives the same runs as the original (see output.parse_lines).
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from .parser import Parser

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

__all__ = ["MOST_WARNINGS", "condensed"]

# For readers: the library's warnings, and the last lines.
MOST_WARNINGS = 1000
_LAST = 20
_TELLING = ("Using network", "NET/", "NVLS", "nvls", "GPU Direct RDMA", "version")


def condensed(lines: Iterable[str], begins: Callable[[str], bool], most: int) -> str:
    """Return the informative lines; the other lines need no memory.

    Args:
        lines: lines with their line ends.
        begins: whether a line starts a part of the output that is parsed separately.
        most: maximum number of characters to keep.

    Raises:
        ValueError: more would have to be kept.
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
            before = parser.told
            parser.feed(bare)
            telling = warnings < MOST_WARNINGS or parser.told != before
            warnings += 1
        elif not parser.run["seen"]["text"] or any(word in line for word in _TELLING):
            before = parser.told
            parser.feed(bare)
            telling = parser.told != before
        last.append((line, telling))
        if telling:
            kept.append(line)
            length += len(line)
            if length > most:
                message = f"the output holds more than {most} characters besides what the library says again and again"
                raise ValueError(message)
    # Readers look at the end first.
    known = sum(telling for _line, telling in last)
    end = [line for line, _telling in last]
    return "".join(kept[: len(kept) - known] + end)
