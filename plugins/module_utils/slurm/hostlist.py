"""Expand Slurm's host lists, for programs that only have the Python standard library."""

from __future__ import annotations

import re
from itertools import product
from math import prod

__all__ = ["MOST_HOSTS", "expand_hosts", "split_outside"]

# Slurm's limit for one range (MAX_RANGE in its hostlist.c); larger than any cluster of one slurmctld.
MOST_HOSTS = 65536

_RANGES = re.compile(r"\[([^\]]*)\]")
_RANGE = re.compile(r"^([0-9]{1,18})-([0-9]{1,18})$")


def split_outside(text: str, opening: str, closing: str) -> list[str]:
    """Split a string at commas outside brackets; empty parts are omitted."""
    parts, part, depth = [], "", 0
    for character in text:
        depth += (character == opening) - (character == closing)
        if character == "," and depth <= 0:
            parts.append(part)
            part = ""
        else:
            part += character
    return [item for item in (*parts, part) if item]


def expand_hosts(text: str, most: int = MOST_HOSTS) -> list[str]:
    """Return the names in a host list: 'gpu[1,08-09]x' gives 'gpu1x', 'gpu08x', 'gpu09x'.

    Raises:
        ValueError: the list has more than `most` hosts; checked before expanding.
    """
    hosts: list[str] = []
    for item in split_outside(text, "[", "]"):
        # The pattern has one group, so split() returns fixed text and ranges alternately.
        parts = _RANGES.split(item)
        if len(hosts) + prod(_count(part) for part in parts[1::2]) > most:
            message = f"host list of more than {most} names: {text[:80]!r}"
            raise ValueError(message)
        pieces = [_numbers(part) if place % 2 else [part] for place, part in enumerate(parts)]
        hosts += ["".join(name) for name in product(*pieces)]
    return hosts


def _count(ranges: str) -> int:
    """Return the number of values in a list of ranges, such as '1,08-09'."""
    found = (_RANGE.match(item) for item in ranges.split(","))
    return sum(max(0, int(item[2]) - int(item[1]) + 1) if item else 1 for item in found)


def _numbers(ranges: str) -> list[str]:
    """Return the values of '1,08-09' with leading zeros."""
    found = []
    for item in ranges.split(","):
        matched = _RANGE.match(item)
        if matched:
            low, high = matched[1], matched[2]
            found += [str(number).zfill(len(low)) for number in range(int(low), int(high) + 1)]
        else:
            found.append(item)
    return found
