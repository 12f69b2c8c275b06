"""Slurm's short form of host lists, for programs that have nothing but Python."""

from __future__ import annotations

import re
from itertools import product

__all__ = ["expand_hosts", "split_outside"]

_RANGES = re.compile(r"\[([^\]]*)\]")
_RANGE = re.compile(r"^(\d+)-(\d+)$")


def split_outside(text: str, opening: str, closing: str) -> list[str]:
    """Return the parts of a text between commas that stand in no brackets; empty parts are left out."""
    parts, part, depth = [], "", 0
    for character in text:
        depth += (character == opening) - (character == closing)
        if character == "," and depth <= 0:
            parts.append(part)
            part = ""
        else:
            part += character
    return [item for item in (*parts, part) if item]


def expand_hosts(text: str) -> list[str]:
    """Return the names in a host list: 'gpu[1,08-09]x' gives 'gpu1x', 'gpu08x', 'gpu09x'."""
    hosts: list[str] = []
    for item in split_outside(text, "[", "]"):
        # With one group, split() gives fixed text and ranges in turn.
        pieces = [_numbers(piece) if place % 2 else [piece] for place, piece in enumerate(_RANGES.split(item))]
        hosts += ["".join(name) for name in product(*pieces)]
    return hosts


def _numbers(ranges: str) -> list[str]:
    """The numbers of '1,08-09', with the zeros that they have."""
    found = []
    for item in ranges.split(","):
        matched = _RANGE.match(item)
        if matched:
            low, high = matched[1], matched[2]
            found += [str(number).zfill(len(low)) for number in range(int(low), int(high) + 1)]
        else:
            found.append(item)
    return found
