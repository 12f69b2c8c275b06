# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""The bus bandwidth of a row as finely as it was printed.

nccl-tests prints busbw with two decimals, which on a slow network is 40 % of it, but the time, which is long there,
in seven characters: digits of microseconds, and "%.1e" from ten seconds on (src/common.cu of 2.0.0 to 2.17.2,
src/util.cu, getFloatStr, of newer ones). busbw is size / time x factor; nccl.bandwidths has checked that of each row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..nccl.outcome import bus_factor
from .judge import out_of_place

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["repeats_at"]

_HALF_UNIT_GBS = 0.005
_LONGEST_US = 1e7
# Half a unit of the last digit of a time, from 100 us on.
_SHARE_OF_TIME = 0.0005
_FEWEST_US = 100.0


def repeats_at(run: dict[str, Any], size: int | None) -> Iterator[tuple[float, float]]:
    """Return the out-of-place busbw in GB/s of each row of a size, and by what share it may be off for its rounding.

    Args:
        run: as nccl.output returns it, which agrees with itself.
        size: in bytes.
    """
    times = [
        row["out_of_place"].get("time_us")
        for row in run["rows"]
        if row["size"] > 0 and row["out_of_place"] is not None and row["out_of_place"]["busbw"] is not None
    ]
    factor = bus_factor(run.get("program"), run.get("ranks") or 0)
    for (at, busbw), time in zip(out_of_place(run), times, strict=True):
        if at == size:
            yield _finest(at, busbw, time, factor)


def _finest(size: int, busbw: float, time: float | None, factor: float | None) -> tuple[float, float]:
    printed = min(1.0, _HALF_UNIT_GBS / busbw) if busbw > 0 else 1.0
    if printed <= _SHARE_OF_TIME or not factor or not time or not _FEWEST_US <= time < _LONGEST_US:
        return busbw, printed
    return size / time / 1e3 * factor, _SHARE_OF_TIME
