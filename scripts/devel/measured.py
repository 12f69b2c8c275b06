"""The figures of a benchmark, and the machine."""

from __future__ import annotations

import math
import os
import platform
import re
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

__all__ = [
    "Figure",
    "Goal",
    "growth",
    "machine",
    "peak_kib",
]


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


def machine() -> dict[str, str | int]:
    """What the figures depend on."""
    info = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    model = re.search(r"^model name\s*:\s*(.*)$", info, re.MULTILINE)
    memory = re.search(r"^MemTotal:\s+(\d+) kB$", Path("/proc/meminfo").read_text(encoding="ascii"), re.MULTILINE)
    return {
        "cpu": model[1].strip() if model else platform.machine(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_gib": round(int(memory[1]) / (1 << 20)) if memory else 0,
        "system": platform.freedesktop_os_release().get("PRETTY_NAME", "Linux"),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "ansible_core": version("ansible-core"),
    }


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
