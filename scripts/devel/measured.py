"""The figures and goals of a benchmark."""

from __future__ import annotations

import math
from pathlib import Path
from typing import NamedTuple

__all__ = ["Figure", "Goal", "growth", "peak_kib"]


class Figure(NamedTuple):
    """One thing measured; at is the size, where a benchmark measures several."""

    name: str
    value: float
    unit: str
    at: int | None = None


class Goal(NamedTuple):
    """The least (>=) or the most (<=) that a figure is to be, at one size where it has several."""

    figure: str
    relation: str
    limit: float
    at: int | None = None

    def met(self, value: float) -> bool:
        """Whether a value is good enough."""
        return value >= self.limit if self.relation == ">=" else value <= self.limit


def growth(points: dict[int, float]) -> float:
    """The exponent with which a figure grows from the smallest to the largest size: 1 is in proportion."""
    low, high = min(points), max(points)
    return round(math.log(points[high] / points[low]) / math.log(high / low), 3)


def peak_kib() -> int:
    """The most memory that this process ever held; ru_maxrss would count what its parent held before it began."""
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1])
    return 0
