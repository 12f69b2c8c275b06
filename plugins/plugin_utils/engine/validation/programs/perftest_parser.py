# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""Parse the output of perftest's ib_write_bw from the clients of all pairs.

The job puts ``busbar-rdma RAIL CLIENT SERVER: `` before each line of a client. The heading contains the unit, ``BW
average[Gb/sec]`` or ``BW average[MiB/sec]`` (``[MB/sec]`` in older releases), and the row has bytes, iterations, peak,
average and message rate (linux-rdma/perftest src/perftest_parameters.h, RESULT_FMT and REPORT_FMT, commit
00b55b6660d0170dabe2c1b49193e8fbe265086e). Warnings may appear between the two.
"""

from __future__ import annotations

import re
from typing import NamedTuple, TypedDict

from ...common.printable import plain_text

_LINE = re.compile(r"^busbar-rdma (\S{1,64}) (\S{1,255}) (\S{1,255}): ?(.*)$")
_HEAD = re.compile(r"^\s*#bytes\s+#iterations\s+BW peak\[(\S+)/sec\]\s+BW average\[(\S+)/sec\]")
_NUMBER = r"\d+\.?\d*"
_ROW = re.compile(rf"^\s*(\d+)\s+(\d+)\s+({_NUMBER})\s+({_NUMBER})(?:\s+({_NUMBER}))?\s*$")
_LOUD = re.compile(r"couldn't|unable|failed|error|not found|cannot|denied", re.IGNORECASE)
# Factors to Gb/s (10^9 bits per second); perftest's MB is 2^20 bytes.
_UNITS = {"Gb": 1.0, "MiB": (1 << 20) * 8 / 1e9, "MB": (1 << 20) * 8 / 1e9}
_LONGEST = 200
_TOLERANCE = 0.02


class Way(NamedTuple):
    """One direction of a pair on one rail: the rail, the sender and the receiver."""

    rail: str
    client: str
    server: str


class Measured(TypedDict):
    """The bandwidth of one client in Gb/s; if it was not measured, None and the reason."""

    gbps: float | None
    message: str


def read_pairs(text: str) -> dict[Way, Measured]:
    """Return the bandwidth of each direction; it never raises.

    Output with several rows, or with a message rate that contradicts the average, counts as not measured.
    """
    lines: dict[Way, list[str]] = {}
    for line in text.splitlines():
        if found := _LINE.match(line):
            lines.setdefault(Way(found[1], found[2], found[3]), []).append(found[4])
    return {way: _measured(lines_of) for way, lines_of in lines.items()}


def _measured(lines: list[str]) -> Measured:
    unit, values, message = None, [], ""
    for line in lines:
        if head := _HEAD.match(line):
            unit = _UNITS.get(head[2])
        elif unit and (row := _ROW.match(line)):
            average = float(row[4]) * unit
            # perftest prints the rate in 10^6 messages per second; 10^6 / 10^9 gives Gb/s.
            expected = int(row[1]) * 8 * float(row[5] or 0) / 1e3
            if row[5] and abs(expected - average) > _TOLERANCE * max(expected, average):
                return {
                    "gbps": None,
                    "message": f"the message rate contradicts the bandwidth: {' '.join(row[0].split())}",
                }
            values.append(average)
        elif _LOUD.search(line):
            message = plain_text(line.strip())[:_LONGEST]
    if len(values) == 1:
        return {"gbps": values[0], "message": ""}
    return {"gbps": None, "message": message or f"{len(values)} results"}
