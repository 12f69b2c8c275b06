# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""Checks the numbers and sizes among the options of a validation."""

from __future__ import annotations

from typing import Any

__all__ = ["bytes_of", "number_problems", "size_problems"]

# Options that are whole numbers, with the least and the most that they may be.
_NUMBERS: dict[str, tuple[int, int | None]] = {
    "partners": (0, None),
    "mpi_ranks_per_node": (1, None),
    "step_factor": (2, None),
    "iterations": (1, None),
    "repeats": (1, 100),
    "spread_limit": (0, 100),
    "wait": (0, None),
    "test_time_limit": (1, None),
    "locate_rounds": (0, None),
    "time_limit": (0, None),
    "drain_limit": (0, 100),
}
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def bytes_of(text: str | int) -> int:
    """Return a number of bytes written as 8, 64K, 16M or 1G.

    Raises:
        ValueError: the text is no size.
    """
    text = str(text).strip()
    number, unit = (text[:-1], text[-1].upper()) if text and not text[-1].isdigit() else (text, "")
    if unit not in _UNITS or not number.isdigit() or int(number) == 0:
        message = f"{text!r} is no size: write 8, 64K, 16M or 1G"
        raise ValueError(message)
    return int(number) * _UNITS[unit]


def number_problems(options: dict[str, Any]) -> list[str]:
    """Return what is wrong with the options that are whole numbers."""
    problems = []
    for name, (least, most) in _NUMBERS.items():
        if name not in options:
            continue
        text = str(options[name]).strip()
        number = int(text) if text.removeprefix("-").isdecimal() else None
        if number is None or number < least or (most is not None and number > most):
            span = f"{least} to {most}" if most is not None else f"{least} or more"
            problems.append(f"validation_{name}: {options[name]!r} is not a whole number, {span}")
    return problems


def size_problems(options: dict[str, Any]) -> list[str]:
    """Return what is wrong with the sizes of messages, min_bytes and max_bytes."""
    problems = []
    sizes = {}
    for name in ("min_bytes", "max_bytes"):
        try:
            sizes[name] = bytes_of(options[name])
        except ValueError as exc:
            problems.append(f"validation_{name}: {exc}")
    if len(sizes) == len(("min", "max")) and sizes["min_bytes"] > sizes["max_bytes"]:
        problems.append("validation_min_bytes is above validation_max_bytes")
    return problems
