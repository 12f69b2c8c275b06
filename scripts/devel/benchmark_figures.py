"""The figures and goals of a benchmark."""

from __future__ import annotations

import math
from pathlib import Path
from typing import NamedTuple


class Figure(NamedTuple):
    """A measured value; `at` is the size if the benchmark measures several sizes."""

    name: str
    value: float
    unit: str
    at: int | None = None


class Goal(NamedTuple):
    """The minimum (>=) or maximum (<=) of a figure; `at` is its size if the benchmark measures several sizes."""

    figure: str
    relation: str
    limit: float
    at: int | None = None

    def met(self, value: float) -> bool:
        """Return whether a value meets the goal."""
        return value >= self.limit if self.relation == ">=" else value <= self.limit


def growth(points: dict[int, float]) -> float:
    """Return the exponent with which a figure grows from the smallest to the largest size; 1 means proportional."""
    low, high = min(points), max(points)
    return round(math.log(points[high] / points[low]) / math.log(high / low), 3)


def peak_kib() -> int:
    """Return the peak memory of this process in KiB; ru_maxrss would include the memory of its parent before exec."""
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1])
    return 0
