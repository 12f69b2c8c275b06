# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""Check that time, algbw and busbw of each row are consistent.

nccl-tests computes a row from one time: algbw = size / time and busbw = algbw x factor(program, ranks). The numbers are
rounded separately, so each printed number stands for an interval: half a unit of its last printed digit on both sides.
Sources in github.com/NVIDIA/nccl-tests:

- 2.0.0 to 2.17.2 (src/common.cu, BenchTime): time "%7.2f", from 100 us "%7.1f", from 10000 us "%7.0f"; algbw and busbw
  "%6.2f"; the error column of 2.0.0 to 2.11.0 "%5.0le", N/A if unchecked.
- 2.17.3 and newer (src/util.cu, getFloatStr): up to two decimals, as many as fit into 7 and 6 characters, then "%.1e"
  and "%.0e". With -J "%lf", six decimals (jsonDouble).
- -n and -m do not change the meaning of time: it is divided by iterations x aggregated iterations before. With -C 1 the
  time is that of the CPU, and the bandwidths are not computed from it.
- The factors: GetBw of src/<program>.cu. all_gather and reduce_scatter before 2.9.0 and hypercube in all versions
  multiply the share of a rank by ranks - 1 for both bandwidths, which is size x (ranks - 1) / ranks.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

from .printed import printed_row

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["bandwidth_problems"]

Run = dict[str, Any]
Interval = tuple[float, float]

# Error of double arithmetic, added to the printed rounding.
_ARITHMETIC = 1e-9
_JSON_UNIT = 5e-7
_HALVES = ("out_of_place", "in_place")
_GATHERING = frozenset({"all_gather", "reduce_scatter", "alltoall", "gather", "scatter"})
_ONCE_OTHER = frozenset({"all_gather", "reduce_scatter"})
_PLAIN = frozenset({"broadcast", "reduce", "sendrecv"})


class _Half(NamedTuple):
    """Half of a row as intervals; base is size / time."""

    row: int
    where: str
    base: Interval | None
    algbw: Interval
    busbw: Interval


def bandwidth_problems(run: Run) -> Iterator[tuple[int, str]]:
    """Yield position and problem of each row whose size / time is not algbw, or algbw x factor not busbw."""
    halves = list(_intervals(run))
    if not halves:
        return
    name = str(run["program"]).split("_perf", maxsplit=1)[0] if run["program"] else None
    seen = run["seen"]
    ranks = None if len(seen["groups"]) > 1 or seen["repeated_ranks"] else run["ranks"]
    count, shares, factor = _most_fitting(halves, _definitions(name, ranks, old=seen["check"] != "wrong"))
    if count == 0:
        return
    wrong = [(half, words) for half in halves if (words := _problem(half, shares, factor))]
    if len(wrong) * 2 > len(halves) + 1 and factor is not None and ranks is not None:
        half = wrong[0][0]
        yield half.row, f"busbw / algbw of most rows is not that of {name or 'a program'} on {ranks} ranks"
        return
    for half, words in wrong:
        yield half.row, f"{half.where.replace('_', '-')}: {words}"


def _intervals(run: Run) -> Iterator[_Half]:
    timed = not run["cpu_time"]
    for number, row in enumerate(run["rows"]):
        if row["size"] <= 0:
            continue
        for place, where in enumerate(_HALVES):
            cells = row[where]
            if cells is None or any(cells[name] is None for name in ("time_us", "algbw", "busbw")):
                continue
            units = printed_row(run, number).units[place]
            time = _around(cells["time_us"], units.get("time_us"))
            algbw = _around(cells["algbw"], units.get("algbw"))
            busbw = _around(cells["busbw"], units.get("busbw"))
            size = row["size"] / 1e3
            base = (size / time[1], size / time[0] if time[0] > 0 else math.inf) if timed and time[1] > 0 else None
            yield _Half(number, where, base, algbw, busbw)


def _around(value: float, unit: float | None) -> Interval:
    """Return the interval that a printed number stands for."""
    unit = (_JSON_UNIT if unit is None else unit) + abs(value) * _ARITHMETIC
    return max(0.0, value - unit), value + unit


def _definitions(name: str | None, ranks: int | None, *, old: bool) -> list[tuple[float | None, float | None]]:
    """Return algbw / (size / time) and busbw / algbw that a program can print; None for unknown values."""
    share = (ranks - 1) / ranks if ranks else None
    found: list[tuple[float | None, float | None]] = []
    if name in {None, "all_reduce"}:
        found.append((1.0, None if share is None else 2 * share))
    if name is None or name in _GATHERING:
        found.append((1.0, share))
    if name is None or name in _PLAIN:
        found.append((1.0, 1.0))
    if name in {None, "hypercube"} or (old and name in _ONCE_OTHER):
        found.append((share, 1.0))
    if name == "alltoallv":
        found.append((None, share))
    return found or [(None, None)]


def _most_fitting(
    halves: list[_Half], definitions: list[tuple[float | None, float | None]]
) -> tuple[int | None, Interval | None, Interval | None]:
    """Return the definition that most halves match; its unknown values are derived from the halves.

    The first item of the result is the number of halves that do not match.
    """
    best: tuple[int, Interval | None, Interval | None] | None = None
    for share, factor in dict.fromkeys(definitions):
        shares = (share, share) if share is not None else _usual([r for h in halves if (r := _ratio(h.algbw, h.base))])
        factors = (
            (factor, factor) if factor is not None else _usual([r for h in halves if (r := _ratio(h.busbw, h.algbw))])
        )
        wrong = sum(bool(_problem(half, shares, factors)) for half in halves)
        if best is None or wrong < best[0]:
            best = (wrong, shares, factors)
        if wrong == 0:
            break
    return (None, None, None) if best is None else best


def _ratio(above: Interval, below: Interval | None) -> Interval | None:
    """Return the interval of a ratio, None if it is unknown."""
    if below is None or below[0] <= 0 or not math.isfinite(below[1]):
        return None
    return above[0] / below[1], above[1] / below[0]


def _usual(ratios: list[Interval]) -> Interval | None:
    """Return the interval contained in most of the given ones, None if there are none."""
    ends = sorted([(low, 0) for low, _ in ratios] + [(high, 1) for _, high in ratios])
    depth, deepest, best = 0, 0, None
    for place, (at, closes) in enumerate(ends):
        depth += -1 if closes else 1
        if depth > deepest:
            deepest, best = depth, (at, ends[place + 1][0])
    return best


def _problem(half: _Half, share: Interval | None, factor: Interval | None) -> str:
    """Return the inconsistency of a half; empty if it is consistent."""
    if half.base is not None and share is not None:
        low, high = half.base[0] * share[0], half.base[1] * share[1]
        if half.algbw[1] < low or half.algbw[0] > high:
            return f"algbw {_mid(half.algbw)} does not follow from size and time, which give {_span(low, high)}"
    if factor is not None:
        # algbw with few digits is imprecise; if the time is known, both together must lead to busbw.
        low, high = half.algbw[0], half.algbw[1]
        if half.base is not None and share is not None:
            low, high = max(low, half.base[0] * share[0]), min(high, half.base[1] * share[1])
        low, high = low * factor[0], high * factor[1]
        if half.busbw[1] < low or half.busbw[0] > high:
            return f"busbw {_mid(half.busbw)} does not follow from algbw, which gives {_span(low, high)}"
    return ""


def _mid(interval: Interval) -> str:
    return f"{(interval[0] + interval[1]) / 2:.6g}"


def _span(low: float, high: float) -> str:
    return f"{low:.6g}" if f"{low:.6g}" == f"{high:.6g}" else f"{low:.6g} to {high:.6g}"
