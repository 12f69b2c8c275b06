# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""The figures of a soak for the report: how fast it was over time, how warm, and what each device went through."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING, Any

from .watched import rises, slowed

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .output import Seen, Soaked

__all__ = ["soak_report"]

_MOST_POINTS = 200
_MOST_WORDS = 3
Speeds = list[tuple[float, float]]


def soak_report(
    soaked: Soaked, busbw: Speeds, devices: dict[tuple[str, int], Speeds], *, decay_limit: float, seconds: float
) -> dict[str, Any]:
    """Return what the report keeps of a soak.

    Args:
        soaked: as output.read_soak gives it.
        busbw: seconds since 1970 and GB/s of each all-reduce.
        devices: by node and device, seconds since 1970 and TFLOP/s of each turn.
        decay_limit: share of 1 by which the last tenth may be below the first.
        seconds: how long it had to last.
    """
    began = soaked.ran[0].began if soaked.ran else 0.0
    return {
        "seconds": seconds,
        "turns": len(busbw),
        "decay_limit": decay_limit,
        "busbw": [[round((at - began) / 60, 3), value] for at, value in _thinned(busbw)],
        "watched": _over_time(soaked.nodes, began),
        "rows": [_row(node, device, soaked.nodes.get(node), speeds) for (node, device), speeds in devices.items()],
    }


def _thinned(values: list[Any]) -> list[Any]:
    step = -(-len(values) // _MOST_POINTS) or 1
    return values[::step]


def _over_time(nodes: dict[str, Seen], began: float) -> list[list[float | None]]:
    """Return minutes, lowest and median clock, and the highest temperature of all devices."""
    every = [(item["at"], item["devices"]) for seen in nodes.values() for item in seen.samples]
    if not every:
        return []
    first, last = min(at for at, _devices in every), max(at for at, _devices in every)
    width = (last - first) / _MOST_POINTS or 1.0
    slots: dict[int, list[dict[str, Any]]] = {}
    for at, devices in every:
        slots.setdefault(int((at - first) / width), []).extend(devices)
    found: list[list[float | None]] = []
    for slot, devices in sorted(slots.items()):
        clocks = _known(devices, "clock_mhz")
        heat = _known(devices, "temperature_c")
        minutes = round((first + slot * width - began) / 60, 3)
        found.append(
            [max(0.0, minutes), min(clocks, default=None), median(clocks) if clocks else None, max(heat, default=None)]
        )
    return found


def _known(devices: Iterable[dict[str, Any]], key: str) -> list[float]:
    return [device[key] for device in devices if device[key] is not None]


def _row(node: str, device: int, seen: Seen | None, speeds: Speeds) -> dict[str, Any]:
    samples = seen.samples if seen else []
    mine = [each for item in samples for each in item["devices"] if each["device"] == device]
    clocks = _known(mine, "clock_mhz")
    ends = [each for item in (seen and seen.end, seen and seen.begin) if item for each in item["devices"]]
    words = slowed(seen).get(device, []) if seen else []

    def rose(key: str) -> float | None:
        return rises(seen, key).get(device) if seen else None

    return {
        "node": node,
        "device": device,
        "uuid": next((each["uuid"] for each in ends if each["device"] == device), ""),
        "tflops_first": speeds[0][1],
        "tflops_last": speeds[-1][1],
        "lowest_clock_mhz": min(clocks, default=None),
        "median_clock_mhz": median(clocks) if clocks else None,
        "highest_temperature_c": max(_known(mine, "temperature_c"), default=None),
        "highest_power_w": max(_known(mine, "power_w"), default=None),
        "uncorrectable": rose("ecc_volatile_uncorrected_total"),
        "correctable": rose("ecc_volatile_corrected_total"),
        "pcie_replays": rose("pcie_replays"),
        "nvlink_errors": rose("nvlink_errors"),
        "slowed": "; ".join(words[:_MOST_WORDS]),
    }
