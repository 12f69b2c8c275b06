# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""Parse the output of a soak job, and evaluate the samples of its nodes: faults, findings and values for the report."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from statistics import median
from typing import TYPE_CHECKING, Any

from .....module_utils.hardware.pci_devices import normal_address
from .....module_utils.hardware.xid import NVLINK5, RECOVERY_CHANGED, is_unparsed, read_sxid, read_xid
from ...common.printable import json_object, plain_text
from ..result_presentation import finite
from .stage_verdict import Fault

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_WATCHED = "busbar-soak {"
_TURN = re.compile(r"^# busbar soak: (gemm|all_reduce) (\d{1,6}) (\d{1,12}\.\d{1,9})$")
_END = re.compile(r"^# busbar soak: end (gemm|all_reduce) (\d{1,6}) (\d{1,12}\.\d{1,9}) (\d{1,3})$")
_DONE = re.compile(r"^# busbar soak: done (\d{1,6}) (\d{1,12}\.\d{1,9})$")
_MOST_DEVICES = 64
_NUMBERS = ("clock_mhz", "power_w", "temperature_c")
_COUNTERS = ("ecc_volatile_uncorrected_total", "ecc_volatile_corrected_total", "pcie_replays", "nvlink_errors")


@dataclass
class Ran:
    """A program that ran: gemm or all_reduce, its iteration, start and end (seconds since 1970), exit code and output.

    The exit code is None if the output ends before the program does.
    """

    kind: str
    turn: int
    began: float
    ended: float | None = None
    code: int | None = None
    text: str = ""


@dataclass
class Seen:
    """The samples of a node; begin and end are None if they are missing."""

    begin: dict[str, Any] | None = None
    end: dict[str, Any] | None = None
    samples: list[dict[str, Any]] = field(default_factory=list)


@dataclass
class Soaked:
    """The parsed output; done is whether the job finished."""

    ran: list[Ran] = field(default_factory=list)
    nodes: dict[str, Seen] = field(default_factory=dict)
    done: bool = False


def read_soak(text: str) -> Soaked:
    """Return the output of a soak; it never raises, and ignores damaged lines."""
    found = Soaked()
    current: Ran | None = None
    lines: list[str] = []
    for line in text.splitlines():
        if line.startswith(_WATCHED):
            _watched(found.nodes, line[len(_WATCHED) - 1 :])
        elif turn := _TURN.match(line):
            # A program that did not finish has no exit code.
            _close(found.ran, current, lines)
            current, lines = Ran(turn[1], int(turn[2]), float(turn[3])), []
        elif end := _END.match(line):
            if current and (current.kind, current.turn) == (end[1], int(end[2])):
                current.ended, current.code = float(end[3]), int(end[4])
            _close(found.ran, current, lines)
            current, lines = None, []
        elif _DONE.match(line):
            found.done = True
        elif current:
            lines.append(line)
    _close(found.ran, current, lines)
    return found


def _close(ran: list[Ran], current: Ran | None, lines: list[str]) -> None:
    if current:
        current.text = "\n".join(lines) + "\n"
        ran.append(current)


def _watched(nodes: dict[str, Seen], text: str) -> None:
    """Store a line of a node."""
    given = json_object(text)
    node, at, when, devices = (given.get(key) for key in ("node", "at", "when", "devices"))
    known = isinstance(node, str) and finite(at) is not None and when in ("begin", "sample", "end")
    if not known or not isinstance(devices, list):
        return
    record = {
        "at": finite(at),
        "devices": [_device(item) for item in devices[:_MOST_DEVICES] if isinstance(item, dict)],
        "kernel_log": given.get("kernel_log") is True,
        "faults": [plain_text(item) for item in _list(given.get("faults"))],
    }
    seen = nodes.setdefault(plain_text(node), Seen())
    if when == "sample":
        seen.samples.append(record)
    elif when == "begin" and seen.begin is None:
        seen.begin = record
    elif when == "end":
        seen.end = record


def _device(given: dict[str, Any]) -> dict[str, Any]:
    rows = given.get("remapped_rows")
    times = given.get("throttle_us")
    return {
        "device": int(finite(given.get("device")) or 0),
        "lost": given.get("lost") is True,
        "reasons": [plain_text(item) for item in _list(given.get("reasons"))],
        "uuid": plain_text(given.get("uuid") or ""),
        "address": plain_text(given.get("address") or ""),
        "remapped_rows": rows if isinstance(rows, dict) else {},
        "throttle_us": {plain_text(key): finite(value) for key, value in times.items()}
        if isinstance(times, dict)
        else {},
        **{key: finite(given.get(key)) for key in (*_NUMBERS, *_COUNTERS)},
    }


def _list(value: object) -> list[Any]:
    return value[:_MOST_DEVICES] if isinstance(value, list) else []


_US = 1_000_000
_LONGEST = 120
_MOST_POINTS = 200
_MOST_WORDS = 3
# Throttling that protects the hardware from damage. A software power cap and low clocks of an idle GPU are normal.
_SLOWDOWNS = {
    "hw_slowdown": "throttled by the hardware",
    "hw_thermal_slowdown": "throttled by the hardware because of its temperature",
    "hw_power_brake_slowdown": "throttled by the power brake of the server",
    "sw_thermal_slowdown": "throttled by the driver because of its temperature",
}
_IDLE = "gpu_idle"
# The corresponding counters of nvidia-smi.
_TIMES = {
    "hw_thermal_slowdown": "hw_therm_slowdown",
    "hw_power_brake_slowdown": "hw_power_brake",
    "sw_thermal_slowdown": "sw_therm_slowdown",
}
Speeds = list[tuple[float, float]]
_RISES = {
    "ecc_volatile_corrected_total": "correctable ECC errors",
    "pcie_replays": "PCIe replays",
    "nvlink_errors": "CRC errors on its NVLinks",
}


def watched_faults(seen: dict[str, Seen], nodes: list[str]) -> tuple[list[Fault], list[str]]:
    """Return the faults in the samples, and further findings."""
    faults: list[Fault] = []
    notes: list[str] = []
    for node in nodes:
        record = seen.get(node)
        if record is None:
            continue
        for item in [record.begin, *record.samples, record.end]:
            lost = [device["device"] for device in item["devices"] if device["lost"]] if item else []
            if lost:
                faults.append(Fault(node, f"GPU {lost[0]} is lost: the driver cannot reach it"))
                break
        if record.begin and record.end:
            _errors(node, record, faults, notes)
        for device, words in _slowed(record).items():
            notes += [f"{node} GPU {device}: {note}" for note in words]
    return faults, notes


def _rises(record: Seen, key: str) -> dict[int, float]:
    """Return the increase of a counter for each device; if a counter was reset, its current value is the increase."""
    before = {device["device"]: device[key] for device in (record.begin or {"devices": []})["devices"]}
    after = {device["device"]: device[key] for device in (record.end or {"devices": []})["devices"]}
    return {
        device: value - (before[device] or 0) if value >= (before[device] or 0) else value
        for device, value in after.items()
        if value is not None and before.get(device) is not None
    }


def _slowed(record: Seen) -> dict[int, list[str]]:
    """Return the reasons for lower clocks of each device, with the time or the number of samples."""
    every = [*record.samples, *filter(None, [record.end])]
    found: dict[int, list[str]] = {}
    first = {device["device"]: device["throttle_us"] for device in (record.begin or {"devices": []})["devices"]}
    last = {device["device"]: device["throttle_us"] for device in (record.end or {"devices": []})["devices"]}
    devices = {device["device"] for item in every for device in item["devices"]}
    for device in sorted(devices):
        for reason, words in _SLOWDOWNS.items():
            seen = sum(_has(item, device, reason) for item in every)
            times = [each.get(device, {}).get(_TIMES.get(reason, "")) for each in (first, last)]
            seconds = (times[1] - times[0]) / _US if times[0] is not None and times[1] is not None else 0.0
            if seen or seconds > 0:
                lasted = f"{seconds:.3g} s" if seconds > 0 else f"in {seen} of {len(every)} samples"
                found.setdefault(device, []).append(f"{words}, {lasted}")
    return found


def _has(item: dict[str, Any], device: int, reason: str) -> bool:
    return any(each["device"] == device and reason in each["reasons"] for each in item["devices"])


def _errors(node: str, record: Seen, faults: list[Fault], notes: list[str]) -> None:
    """Record the counters that increased, and the faults, between the begin and end samples."""
    begin, end = record.begin or {}, record.end or {}
    for device, count in _rises(record, "ecc_volatile_uncorrected_total").items():
        if count:
            faults.append(Fault(node, f"{_name(end, device)}: {count:.0f} uncorrectable memory errors"))
    for device, words in _rows(begin, end):
        faults.append(Fault(node, f"{_name(end, device)}: {words}"))
    for words, fault in _xids(begin, end["faults"]):
        if fault:
            faults.append(Fault(node, words))
        else:
            notes.append(f"{node} {words}")
    for key, words in _RISES.items():
        for device, count in _rises(record, key).items():
            if count:
                notes.append(f"{node} {_name(end, device)}: {count:.0f} {words} during the soak")


def _name(record: dict[str, Any], device: int) -> str:
    uuid = next((each["uuid"] for each in record["devices"] if each["device"] == device), "")
    return f"GPU {device} ({uuid})" if uuid else f"device {device}"


def _rows(begin: dict[str, Any], end: dict[str, Any]) -> Iterator[tuple[int, str]]:
    """Yield the devices with remapped memory rows, or rows that could not be remapped, each with a message."""
    before = {device["device"]: device["remapped_rows"] for device in begin["devices"]}
    for device in end["devices"]:
        was, rows = before.get(device["device"], {}), device["remapped_rows"]
        if rows.get("failure") is True and was.get("failure") is not True:
            yield device["device"], "a memory row could not be remapped"
        elif _number(rows.get("uncorrectable")) > _number(was.get("uncorrectable")):
            yield device["device"], "a memory row was remapped after an uncorrectable error"


def _number(value: object) -> float:
    return float(value) if isinstance(value, (int, float)) else 0.0


def _xids(begin: dict[str, Any], lines: list[str]) -> Iterator[tuple[str, bool]]:
    """Yield a message for each Xid and GPU in lines of the kernel log, and whether it is a fault.

    An Xid that the driver calls nonfatal is not a fault. An Xid that cannot be parsed counts as a fault.
    """
    known = {normal_address(device["address"]): device["device"] for device in begin["devices"] if device["address"]}
    named = set()
    for line in lines:
        xid, switch = read_xid(line), read_sxid(line)
        words, fault = "", True
        if xid and xid.number != RECOVERY_CHANGED:
            # The log omits the PCI function.
            where = next((device for address, device in known.items() if _same(address, xid.address)), None)
            name = f"GPU {where}" if where is not None else f"GPU at {xid.address}"
            name += f" {xid.instance}" if xid.instance else ""
            fault = xid.fatal is not False or xid.number not in NVLINK5
            words = f"{name}: Xid {xid.number}{'' if fault else ' (nonfatal)'}"
        elif switch and switch.fatal:
            words = f"NVSwitch at {switch.address}: fatal SXid {switch.number}"
        elif is_unparsed(line):
            words = f"an Xid in a format that cannot be parsed: {line[line.find('Xid') :][:_LONGEST]}"
        if words and words not in named:
            named.add(words)
            yield words, fault


def _same(address: str, logged: str) -> bool:
    return normal_address(logged if "." in logged else f"{logged}.0") == address


def soak_figures(soaked: Soaked, busbw: Speeds, devices: dict[tuple[str, int], Speeds]) -> dict[str, Any]:
    """Return the speeds and the samples for the report.

    Args:
        soaked: the result of read_soak.
        busbw: seconds since 1970 and GB/s of each all-reduce.
        devices: by node and device, seconds since 1970 and TFLOP/s of each iteration.
    """
    began = soaked.ran[0].began if soaked.ran else 0.0
    return {
        "turns": len(busbw) or min(map(len, devices.values()), default=0),
        "busbw": [[round((at - began) / 60, 3), value] for at, value in _thinned(busbw)],
        "watched": _over_time(soaked.nodes, began),
        "rows": [_row(node, device, soaked.nodes.get(node), speeds) for (node, device), speeds in devices.items()],
    }


def _thinned(values: list[Any]) -> list[Any]:
    step = -(-len(values) // _MOST_POINTS) or 1
    return values[::step]


def _over_time(nodes: dict[str, Seen], began: float) -> list[list[float | None]]:
    """Return rows of minutes, lowest and median clock, and highest temperature of all devices."""
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
        clocks = _clocks(devices)
        heat = _known(devices, "temperature_c")
        minutes = round((first + slot * width - began) / 60, 3)
        found.append(
            [max(0.0, minutes), min(clocks, default=None), median(clocks) if clocks else None, max(heat, default=None)]
        )
    return found


def _known(devices: Iterable[dict[str, Any]], key: str) -> list[float]:
    return [device[key] for device in devices if device[key] is not None]


def _clocks(devices: list[dict[str, Any]]) -> list[float]:
    """Return the clocks under load, without samples of idle GPUs between two programs."""
    return _known((device for device in devices if _IDLE not in device["reasons"]), "clock_mhz")


def _row(node: str, device: int, seen: Seen | None, speeds: Speeds) -> dict[str, Any]:
    samples = seen.samples if seen else []
    mine = [each for item in samples for each in item["devices"] if each["device"] == device]
    clocks = _clocks(mine)
    ends = [each for item in (seen and seen.end, seen and seen.begin) if item for each in item["devices"]]
    words = _slowed(seen).get(device, []) if seen else []

    def rose(key: str) -> float | None:
        return _rises(seen, key).get(device) if seen else None

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
