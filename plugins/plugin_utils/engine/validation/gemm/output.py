# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""Reads what busbar_gemm.py printed on each rank."""

from __future__ import annotations

import json
import re
from typing import Any

from ..section import finite

__all__ = ["read_gemm"]

_MARK = "busbar-gemm "
_SAID = re.compile(r"^busbar_gemm: (\S{1,255}): (.*)$")
_LONGEST = 300
_TEXTS = ("node", "what", "uuid", "kind", "library", "precision", "digest")
_WHOLE = ("rank", "device", "size", "batches", "changed", "copies_changed")
_SPEEDS = ("tflops", "lowest_tflops", "memory_gbs")


def read_gemm(text: str) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """Return what each rank measured, and why nodes measured nothing; it never raises.

    Args:
        text: the output of the job.

    Returns:
        For each rank node, what (gpu or cpu), uuid, kind, library, precision and digest (texts), rank, device, size,
        batches, changed and copies_changed (whole numbers), tflops, lowest_tflops and memory_gbs (numbers); a line that
        lacks one of them is none. Then node to its own words.
    """
    ranks: list[dict[str, Any]] = []
    said: dict[str, str] = {}
    for line in text.splitlines():
        if line.startswith(_MARK):
            found = _rank(line[len(_MARK) :])
            if found:
                ranks.append(found)
        elif words := _SAID.match(line):
            said.setdefault(words[1], _plain(words[2]))
    return ranks, said


def _plain(value: object) -> str:
    return "".join(char if char.isprintable() else " " for char in str(value))[:_LONGEST]


def _rank(text: str) -> dict[str, Any] | None:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict) or not all(isinstance(found.get(key), str) for key in _TEXTS):
        return None
    numbers = {key: finite(found.get(key)) for key in (*_WHOLE, *_SPEEDS)}
    if any(value is None for value in numbers.values()) or not found["digest"] or not found["node"]:
        return None
    return {
        **{key: _plain(found[key]) for key in _TEXTS},
        **{key: int(numbers[key] or 0) for key in _WHOLE},
        **{key: numbers[key] for key in _SPEEDS},
    }
