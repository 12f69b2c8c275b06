# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""Make untrusted text printable by removing characters that control a terminal or break an XML parser."""

from __future__ import annotations

import json
import re
from typing import Any

_REPLACEMENT = 0xFFFD
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_KEPT = frozenset(map(ord, "\n\t"))
_LINE_ENDS = re.compile(r"\r+\n")
_LONGEST = 300


class _Table(dict[int, int]):
    """Maps each character to its replacement; entries are added when a character first occurs."""

    def __missing__(self, code: int) -> int:
        """Return the character itself if it is printable, otherwise the replacement character."""
        self[code] = code if code in _KEPT or chr(code).isprintable() else _REPLACEMENT
        return self[code]


_TABLE = _Table()


def printable(text: object) -> str:
    """Return text with control characters, direction marks and lone surrogates replaced by U+FFFD.

    Line feeds and tabs are kept, CRLF becomes a line feed, and terminal colours are removed.
    """
    text = str(text)
    if text.isprintable():
        return text
    # Removing a sequence can join the surrounding text into a new sequence, so control characters are replaced last.
    return _LINE_ENDS.sub("\n", _COLOURS.sub("", text)).translate(_TABLE)


def printable_lines(text: object) -> list[str]:
    """Return the printable lines of a text without leading and trailing whitespace."""
    return printable(str(text).strip()).split("\n") if str(text).strip() else []


def human_size(size: float) -> str:
    """Return a number of bytes in a suitable unit."""
    for unit, power in (("GiB", 30), ("MiB", 20), ("KiB", 10)):
        if size >= 1 << power:
            return f"{size / (1 << power):.4g} {unit}"
    return f"{size:.0f} B"


def plain_text(value: object, most: int = _LONGEST) -> str:
    """Return printable text of limited length."""
    return "".join(char if char.isprintable() else " " for char in str(value))[:most]


def json_object(text: str) -> dict[str, Any]:
    """Return the JSON object in a text, or an empty one if the text is not a JSON object."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
