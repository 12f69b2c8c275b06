# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""Check that the rows of an nccl-tests table are consistent with themselves, each other and the footer.

nccl-tests computes a row from one time: algbw = size / time and busbw = algbw x factor(program, ranks). Each number is
rounded separately, so its true value is within half a unit of the last printed digit. Sources, in
github.com/NVIDIA/nccl-tests:

- Format of 2.0.0 to 2.17.2 (src/common.cu, BenchTime): time "%7.2f", from 100 us "%7.1f", from 10000 us "%7.0f"; algbw
  and busbw "%6.2f"; the error column of 2.0.0 to 2.11.0 "%5.0le", N/A if unchecked.
- Format of 2.17.3 and newer (src/util.cu, getFloatStr): up to two decimals, as many as fit into 7 and 6 characters,
  then "%.1e" and "%.0e". With -J "%lf", six decimals (jsonDouble).
- The printed time is per operation, independent of -n and -m. With -C 1 it is CPU time, and the bandwidths do not
  follow from it.
- Factors: GetBw of src/<program>.cu. all_gather and reduce_scatter before 2.9.0 and hypercube in all versions use
  size x (ranks - 1) / ranks for both bandwidths.
- Tolerance of the error column: DeltaMaxValue(type) x (ranks - 1) (src/common.cu, CheckData, 2.0.0 to 2.11.0).
- Sizes: TimeTest of src/common.cu; <Program>GetCollByteCount rounds down by less than 16 bytes per rank.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

from .run_data import printed_row

if TYPE_CHECKING:
    from collections.abc import Iterator

Run = dict[str, Any]
Interval = tuple[float, float]

# Relative error of floating-point arithmetic, added to the rounding of printed values.
_ARITHMETIC = 1e-9
_JSON_UNIT = 5e-7
_HALVES = ("out_of_place", "in_place")
_GATHERING = frozenset({"all_gather", "reduce_scatter", "alltoall", "gather", "scatter"})
_ONCE_OTHER = frozenset({"all_gather", "reduce_scatter"})
_PLAIN = frozenset({"broadcast", "reduce", "sendrecv"})


class _Half(NamedTuple):
    """The out-of-place or in-place half of a row, as intervals of possible values; base is size / time."""

    row: int
    where: str
    base: Interval | None
    algbw: Interval
    busbw: Interval


def _bandwidth_problems(run: Run) -> Iterator[tuple[int, str]]:
    """Yield the position and problem of each row where algbw is not size / time or busbw is not algbw x factor."""
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
        yield half.row, f"busbw / algbw of most rows is impossible for {name or 'any program'} on {ranks} ranks"
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
    """Return the interval that contains the true value of a printed number."""
    unit = (_JSON_UNIT if unit is None else unit) + abs(value) * _ARITHMETIC
    return max(0.0, value - unit), value + unit


def _definitions(name: str | None, ranks: int | None, *, old: bool) -> list[tuple[float | None, float | None]]:
    """Return the possible values of algbw / (size / time) and busbw / algbw of a program; None for unknown values."""
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
    """Return the number of halves that do not match, and the definition that most halves match.

    Unknown values of the definition are derived from the halves.
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
    """Return the interval that most of the given intervals contain, or None for an empty list."""
    ends = sorted([(low, 0) for low, _ in ratios] + [(high, 1) for _, high in ratios])
    depth, deepest, best = 0, 0, None
    for place, (at, closes) in enumerate(ends):
        depth += -1 if closes else 1
        if depth > deepest:
            deepest, best = depth, (at, ends[place + 1][0])
    return best


def _problem(half: _Half, share: Interval | None, factor: Interval | None) -> str:
    """Return the inconsistency in a half; empty if it is consistent."""
    if half.base is not None and share is not None:
        low, high = half.base[0] * share[0], half.base[1] * share[1]
        if half.algbw[1] < low or half.algbw[0] > high:
            return f"algbw is {_mid(half.algbw)} (expected {_span(low, high)}, from size and time)"
    if factor is not None:
        # algbw with few digits is imprecise; if the time is known, busbw must follow from both.
        low, high = half.algbw[0], half.algbw[1]
        if half.base is not None and share is not None:
            low, high = max(low, half.base[0] * share[0]), min(high, half.base[1] * share[1])
        low, high = low * factor[0], high * factor[1]
        if half.busbw[1] < low or half.busbw[0] > high:
            return f"busbw is {_mid(half.busbw)} (expected {_span(low, high)}, from algbw)"
    return ""


def _mid(interval: Interval) -> str:
    return f"{(interval[0] + interval[1]) / 2:.6g}"


def _span(low: float, high: float) -> str:
    return f"{low:.6g}" if f"{low:.6g}" == f"{high:.6g}" else f"{low:.6g} to {high:.6g}"


MOST = 5
_QUOTED = 160
_EXCHANGING = ("alltoall", "sendrecv")
_TOLERANCE = {"half": 1e-2, "float16": 1e-2, "bfloat16": 1e-2, "bf16": 1e-2, "float": 1e-5, "float32": 1e-5}
_TOLERANCE_OF_DOUBLE = 1e-12
# Number of ranks assumed for the tolerance if it is unknown.
_MANY_RANKS = 1024
_ALIGNMENT = 16
_UNKNOWN_SLACK = 65536
_MOST_FACTOR_STEPS = 64


def contradictions(run: Run) -> list[str]:
    """Return at most five contradictions within a run, each with its line number and row.

    Args:
        run: a run that still has its key "seen".
    """
    found = [*_mixed(run), *_bad_cells(run), *_unlike_each_other(run), *_footer(run)]
    if run["rows"]:
        found += [*_sizes(run), *(_quote(run, row, words) for row, words in _bandwidth_problems(run))]
    return list(dict.fromkeys(found))[:MOST]


def _mixed(run: Run) -> Iterator[str]:
    """Yield a problem if one output contains the tables of several processes."""
    if run["seen"]["repeated_ranks"]:
        yield "a rank is listed twice: the output of several programs is mixed, or the program was built without MPI"


def _quote(run: Run, row: int, problem: str) -> str:
    """Return a problem together with its row."""
    printed = printed_row(run, row)
    where = f"line {printed.line}: " if printed.line else ""
    text = " ".join(printed.text.split())[:_QUOTED] or f"the row of {run['rows'][row]['size']} B"
    return f'{where}{problem}: "{text}"'


# -- single cells -----------------------------------------------------------------------------------------------------


def _bad_cells(run: Run) -> Iterator[str]:
    for row, printed in enumerate(run["seen"]["printed"]):
        if printed.bad:
            yield _quote(run, row, printed.bad[0])


def _unlike_each_other(run: Run) -> Iterator[str]:
    """Yield N/A cells whose half was checked in similar rows, and errors above the type's tolerance."""
    checked = {
        (half, row["type"], row["redop"], row["root"])
        for row in run["rows"]
        for half in _HALVES
        if row[half] is not None and row[half]["wrong"] is not None
    }
    limit = _error_limit(run)
    for number, row in enumerate(run["rows"]):
        for half in _HALVES:
            cells = row[half]
            if cells is None:
                continue
            wrong = cells["wrong"]
            if wrong is None:
                kind = (half, row["type"], row["redop"], row["root"])
                if kind in checked and not printed_row(run, number).bad:
                    yield _quote(run, number, f"the {_half_name(half)} result was not checked, but other rows were")
            elif limit is not None and wrong > limit * _tolerance(row["type"]) and not _ignores_errors(run, row, half):
                most = limit * _tolerance(row["type"])
                words = f"the {_half_name(half)} error is {wrong:g} (at most {most:.1g}), but the footer reports 0 OK"
                yield _quote(run, number, words)


def _error_limit(run: Run) -> float | None:
    """Return the maximum error as a multiple of the type's tolerance, None without an error column.

    The error is printed with one digit, so the printed value may exceed the true one by up to half.
    """
    if run["seen"]["check"] != "error" or run["out_of_bounds"] != 0:
        return None
    start = run["seen"]["start"]
    ranks = run["ranks"] or _MANY_RANKS
    # Early versions print the sum of the errors of a process's threads.
    return 1.5 * max(1, ranks - 1) * (max(1, int(start["threads"])) if start is not None else 1)


def _ignores_errors(run: Run, row: dict[str, Any], half: str) -> bool:
    """Return whether nccl-tests ignores errors of this row: in-place alltoall and sendrecv from 2.9.0 to 2.11.0.

    Their ranks overwrite data that others still read (reportErrors in src/alltoall.cu and src/sendrecv.cu). These rows
    have no operator and no root.
    """
    if half != "in_place":
        return False
    if run["program"]:
        return str(run["program"]).startswith(_EXCHANGING)
    return row["redop"] is None and row["root"] is None


def _tolerance(kind: str | None) -> float:
    if kind in {"double", "float64"}:
        return _TOLERANCE_OF_DOUBLE
    return _TOLERANCE.get(str(kind), 0.0)


def _half_name(half: str) -> str:
    return half.replace("_", "-")


# -- the footer -------------------------------------------------------------------------------------------------------


def _footer(run: Run) -> Iterator[str]:
    """Yield differences between the footer and the cells."""
    yield from run["seen"]["strange_footer"]
    if run["out_of_bounds"] == 0 and run["seen"]["check"] != "error":
        for number, row in enumerate(run["rows"]):
            if any(row[half] is not None and (row[half]["wrong"] or 0) > 0 for half in _HALVES):
                yield _quote(run, number, "elements are wrong, but the footer reports 0 wrong elements")
                return


# -- sizes ------------------------------------------------------------------------------------------------------------


def _sizes(run: Run) -> Iterator[str]:
    """Yield sizes that decrease or do not match the declared step."""
    sizes = [row["size"] for row in run["rows"]]
    start = run["seen"]["start"]
    slack = _ALIGNMENT * run["ranks"] if run["ranks"] else _UNKNOWN_SLACK
    for number, (before, size) in enumerate(zip(sizes, sizes[1:]), start=1):
        # The sizes restart for each type, operator and root, and for each repeat (-N). If processes print separate
        # tables, their rows are interleaved.
        if size < before and size > sizes[0] + slack and not run["seen"]["repeated_ranks"]:
            yield _quote(run, number, f"size {size} B follows {before} B (expected ascending sizes)")
            return
    if start is None or start["step"] is None or run["seen"]["elided"] or "alltoallv" in str(run["program"]):
        return
    low, high, step = int(start["min"]), int(start["max"]), int(float(start["step"]))
    if run["seen"]["reduced"] is not None:
        low, high = min(low, run["seen"]["reduced"]), min(high, run["seen"]["reduced"])
    factor = start["unit"] == "factor"
    if low > high or step <= (1 if factor else 0) or (factor and low == 0):
        return
    for number, size in enumerate(sizes):
        declared = _next_size(low, size, step, factor=factor)
        if size > high or not declared - slack < size <= declared:
            by = "factor" if factor else "step"
            yield _quote(run, number, f"size {size} B is not part of {low} B to {high} B with {by} {step}")
            return


def _next_size(low: int, size: int, step: int, *, factor: bool) -> int:
    """Return the smallest declared size that is not below a printed size."""
    if size <= low:
        return low
    if not factor:
        return low + -(-(size - low) // step) * step
    for _ in range(_MOST_FACTOR_STEPS):
        if low >= size:
            break
        low *= step
    return low
