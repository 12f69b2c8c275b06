"""What a benchmark answers, what it needs of the machine, and the machine itself."""

from __future__ import annotations

import math
import os
import platform
import re
import shutil
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

from busbar.errors import UsageError

__all__ = [
    "Figure",
    "Goal",
    "Needs",
    "available_mib",
    "free_mib",
    "growth",
    "machine",
    "peak_kib",
    "refuse_too_little",
]

_MIB = 1 << 20


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


class Needs(NamedTuple):
    """Memory and disk that a benchmark takes at the size asked for, and how a smaller one is asked for.

    The disk is that of temporary files, or of a folder.
    """

    memory_mib: int
    disk_mib: int
    smaller: str
    folder: str = ""


def available_mib() -> int:
    """Memory that programs can still have."""
    text = Path("/proc/meminfo").read_text(encoding="ascii")
    match = re.search(r"^MemAvailable:\s+(\d+) kB$", text, re.MULTILINE)
    return int(match[1]) // 1024 if match else 0


def free_mib(folder: str) -> int:
    """Room where a folder is."""
    return shutil.disk_usage(folder).free // _MIB


def refuse_too_little(name: str, needs: Needs) -> None:
    """Refuse what the machine has no room for.

    Raises:
        UsageError: memory or disk is too small.
    """
    if needs.memory_mib > available_mib():
        message = (
            f"{name} needs {needs.memory_mib} MiB of memory at this size, and {available_mib()} MiB are available: "
            f"end other programs, or choose a smaller {needs.smaller}"
        )
        raise UsageError(message)
    folder = needs.folder or tempfile.gettempdir()
    if needs.disk_mib > free_mib(folder):
        remedy = f"make room in {folder}" if needs.folder else "set TMPDIR to a larger file system"
        message = (
            f"{name} needs {needs.disk_mib} MiB of disk in {folder} at this size, and {free_mib(folder)} MiB "
            f"are free: {remedy}, or choose a smaller {needs.smaller}"
        )
        raise UsageError(message)


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
