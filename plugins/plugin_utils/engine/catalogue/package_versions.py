# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""Compares versions of packages as dpkg and rpm do. Pure."""

from __future__ import annotations

import re
from itertools import zip_longest
from typing import Any

__all__ = ["compare_dpkg", "compare_rpm", "upstream_of"]

_NUMBERS = re.compile(r"(\d+)")
_RPM_PARTS = re.compile(r"\d+|[A-Za-z]+|~|\^")
_LOWEST = -1
_END = ([0], 0)


def upstream_of(version: str) -> str:
    """Return the upstream version: '24.11.5' of '1:24.11.5-4+deb13u1'."""
    return version.partition(":")[2].rpartition("-")[0] or _split(version)[1]


def _split(version: str) -> tuple[int, str, str]:
    """Return epoch, upstream version and revision."""
    epoch, colon, rest = version.partition(":")
    number, rest = (epoch, rest) if colon else ("0", version)
    upstream, dash, revision = rest.rpartition("-")
    return int(number) if number.isdigit() else 0, *((upstream, revision) if dash else (rest, ""))


def _sign(one: Any, other: Any) -> int:  # noqa: ANN401 - two of one type
    return int(one > other) - int(one < other)


def _dpkg_key(text: str) -> list[tuple[list[int], int]]:
    """Return what dpkg's verrevcmp compares: `~` before the end, letters before all other signs, numbers by value."""
    parts = _NUMBERS.split(text)
    found = []
    for place in range(0, len(parts), 2):
        # A `~` sorts before the end of the text, which sorts before everything else.
        order = [_LOWEST if sign == "~" else ord(sign) + (0 if sign.isalpha() else 256) for sign in parts[place]]
        found.append(([*order, 0], int(parts[place + 1]) if place + 1 < len(parts) else 0))
    return found


def compare_dpkg(one: str, other: str) -> int:
    """Return -1, 0 or 1: how two versions of Debian packages compare (deb-version(7))."""
    (epoch, upstream, revision), (its_epoch, its_upstream, its_revision) = _split(one), _split(other)
    return _sign(epoch, its_epoch) or _verrevcmp(upstream, its_upstream) or _verrevcmp(revision, its_revision)


def _verrevcmp(one: str, other: str) -> int:
    pairs = zip_longest(_dpkg_key(one), _dpkg_key(other), fillvalue=_END)
    return next((sign for mine, its in pairs if (sign := _sign(mine, its))), 0)


def _rpmvercmp(one: str, other: str) -> int:
    """Compare as rpm does: numbers beat letters, `~` sorts before the end, `^` after it but before a further part."""
    mine, its = _RPM_PARTS.findall(one), _RPM_PARTS.findall(other)
    for place in range(max(len(mine), len(its))):
        left = mine[place] if place < len(mine) else ""
        right = its[place] if place < len(its) else ""
        if sign := _sign(_rpm_rank(left), _rpm_rank(right)):
            return sign
    return 0


def _rpm_rank(part: str) -> tuple[int, int, str]:
    kind = {"~": 0, "": 1, "^": 2}.get(part)
    if kind is not None:
        return kind, 0, ""
    return (4, int(part), "") if part.isdigit() else (3, 0, part)


def compare_rpm(one: str, other: str) -> int:
    """Return -1, 0 or 1: how two versions of RPM packages compare; a missing release equals any."""
    (epoch, upstream, revision), (its_epoch, its_upstream, its_revision) = _split(one), _split(other)
    sign = _sign(epoch, its_epoch) or _rpmvercmp(upstream, its_upstream)
    return sign or (_rpmvercmp(revision, its_revision) if revision and its_revision else 0)
