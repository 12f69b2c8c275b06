# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""Parse the output of a soak job: the programs that ran one after another, and the samples of each node."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from ...common.printable import json_object, plain_text
from ..presentation import finite

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
