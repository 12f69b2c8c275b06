# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""Decide whether an nccl-tests run succeeded, and whether its output is complete."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

from .table_consistency import contradictions

Run = dict[str, Any]

# Error of a mean of printed cells: half a unit of the second decimal, plus the rounding to six digits.
_CELL_ROUNDING = 0.0051
_SIX_DIGITS = 2e-5
# Since 2.17.3, as many digits as fit into six characters are printed.
_WIDE_ROUNDING = 6e-4
_ALIGNMENT = 0.02
_PAGE = 4096
_FAR_ABOVE_ROUNDING = 65536
_GAP = 1.4
_MIN_SIZE_FOR_RATIO = 20.0
_MIN_FOR_CONTRADICTION = 0.3


def bus_factor(program: str | None, ranks: int) -> float | None:
    """Return busbw / algbw of a program for a number of ranks, or None if it is unknown.

    Source: nccl-tests doc/PERFORMANCE.md.
    """
    if program is None or ranks < 1:
        return None
    name = program.split("_perf")[0]
    if name == "all_reduce":
        return 2 * (ranks - 1) / ranks
    if name in {"all_gather", "reduce_scatter", "alltoall", "gather", "scatter"}:
        return (ranks - 1) / ranks
    return 1.0 if name in {"broadcast", "reduce", "sendrecv"} else None


def _halves(run: Run) -> list[dict[str, Any]]:
    return [h for row in run["rows"] for h in (row["out_of_place"], row["in_place"]) if h is not None]


def _largest_pair(run: Run) -> tuple[float, float] | None:
    """Return algbw and busbw, out of place or in place: those with the larger finite algbw, which has more digits."""
    pairs = [
        (half["algbw"], half["busbw"])
        for half in _halves(run)
        if half["algbw"] is not None and half["busbw"] is not None
    ]
    return max(pairs) if pairs else None


def ranks_from_ratio(run: Run) -> tuple[int, int] | None:
    """Return the smallest and largest number of ranks that match busbw / algbw of an all-reduce or a gather.

    The result is None if the values are too small, or if the ratio is 1 (two ranks, or a program without a factor).
    """
    pair = _largest_pair(run)
    if pair is None or pair[0] < _MIN_SIZE_FOR_RATIO or pair[1] <= 0:
        return None
    algbw, busbw = pair
    slack = _CELL_ROUNDING + _WIDE_ROUNDING * busbw
    low, high = (busbw - slack) / (algbw + slack), (busbw + slack) / (algbw - slack)
    if low <= 1.0 <= high:
        return None
    base = 2.0 if low > 1.0 else 1.0
    if high >= base:
        return None
    return max(2, math.ceil(base / (base - low) - 1e-9)), math.floor(base / (base - high) + 1e-9)


def _ratio_contradicts(run: Run, ranks: int) -> bool:
    """Return whether busbw / algbw corresponds to a different number of ranks than the given one."""
    seen = run["seen"]
    if len(seen["groups"]) > 1 or seen["repeated_ranks"] or ranks < 1:
        return False
    pair = _largest_pair(run)
    if pair is None or pair[0] < _MIN_FOR_CONTRADICTION:
        return False
    algbw, busbw = pair
    # With one rank, sendrecv sends to itself with a factor of 1.
    alone = ranks == 1 and bus_factor(run["program"], 1) != 1.0
    if alone and busbw > _CELL_ROUNDING and all(row["root"] == -1 for row in run["rows"]):
        return True
    slack = (_CELL_ROUNDING + _WIDE_ROUNDING * busbw) / algbw * 2
    ratio = busbw / algbw
    if run["program"] is not None:
        factor = bus_factor(run["program"], ranks)
        factors = [] if factor is None else [factor]
        # Before 2.9.0, algbw of all_gather and reduce_scatter already excluded one rank's share.
        if factors and seen["check"] == "error" and "all_reduce" not in run["program"]:
            factors.append(1.0)
    else:
        factors = [2 * (ranks - 1) / ranks, (ranks - 1) / ranks, 1.0]
    return bool(factors) and all(abs(ratio - factor) > slack + 1e-6 for factor in factors)


def missing_parts(run: Run) -> list[str]:
    """Return a message for each group of missing rows, halves and rank lines of a run."""
    missing = []
    if not run["rows"]:
        missing.append(_no_rows(run["seen"]))
    if run["seen"]["broken_rows"]:
        missing.append(f"{run['seen']['broken_rows']} row(s) are incomplete")
    if run["seen"].get("cut"):
        missing.append("the file is truncated")
    if run["seen"]["named"] and run["seen"]["start"] is None:
        missing.append("the nThread line is missing")
    missing += _missing_halves(run) + _missing_rows(run) + _missing_ranks(run)
    if _average_contradicts(run):
        missing.append("rows are missing: the average of the present rows differs from the printed average")
    return missing


def _no_rows(seen: dict[str, Any]) -> str:
    """Return why a run with a footer has no rows."""
    start, reduced = seen["start"], seen["reduced"]
    if start is None or reduced is None or reduced >= int(start["min"]):
        return "the output has a footer but no row"
    # common.cu reduces maxBytes to fit the GPU memory only after comparing it with minBytes.
    return (
        f"nccl-tests measured nothing: it reduced maxBytes to {reduced} B to fit the GPU memory, below minBytes "
        f"({start['min']} B): lower minBytes"
    )


def _missing_halves(run: Run) -> list[str]:
    rows = run["rows"]
    for half in ("out_of_place", "in_place"):
        absent = sum(row[half] is None for row in rows)
        if absent and absent != len(rows):
            return [f"{absent} row(s) lack the {half.replace('_', '-')} half"]
    return []


def _average_contradicts(run: Run) -> bool:
    values = [half["busbw"] for half in _halves(run) if half["busbw"] is not None]
    average = run["avg_busbw"]
    if average is None or not values or len(values) != len(_halves(run)):
        return False
    mean = math.fsum(values) / len(values)
    units = [half.get("busbw", 0.0) for printed in run["seen"]["printed"] for half in printed.units]
    slack = _CELL_ROUNDING / 100 + _SIX_DIGITS * abs(average) + math.fsum(units) / len(values)
    return bool(abs(mean - average) > slack)


def _missing_rows(run: Run) -> list[str]:
    sizes = [row["size"] for row in run["rows"]]
    start = run["seen"]["start"]
    if run["seen"]["elided"]:
        return []
    problems = []
    if start is not None and start["step"] is not None and sizes:
        problems += _against_start(sizes, start, run["seen"]["reduced"])
    if not problems:
        problems += _uneven_steps(sizes, start)
    return problems


def _against_start(sizes: list[int], start: dict[str, str], reduced: int | None) -> list[str]:
    """Return the differences between the first and last size and those in the header."""
    low, high, step = int(start["min"]), int(start["max"]), int(float(start["step"]))
    if reduced is not None:
        low, high = min(low, reduced), min(high, reduced)
    factor = start["unit"] == "factor"
    first, last = min(sizes), max(sizes)
    if step <= (1 if factor else 0):
        return []
    problems = []
    if _following(low, last, step, factor=factor) <= high:
        problems.append(f"the last row has {last} B (expected {high} B)")
    # Some programs round sizes down, and small ones to 0.
    slack = _ALIGNMENT * last + _PAGE
    second = low * step if factor else low + step
    if first > second + slack or (low >= _PAGE and first >= second * (1 - _ALIGNMENT) and first > low):
        problems.append(f"the first row has {first} B (expected {low} B)")
    return problems


def _following(low: int, last: int, step: int, *, factor: bool) -> int:
    """Return the size after the last one, before the program rounds it down."""
    if not factor:
        return low - (low - last) // step * step + step
    size = max(1, low)
    while size < last:
        size *= step
    return size * step


def _uneven_steps(sizes: list[int], start: dict[str, str] | None) -> list[str]:
    """Return up to three gaps between the sizes of consecutive rows."""
    distinct = [size for size in dict.fromkeys(sizes) if size > 0]
    if start is not None and start["unit"] is not None:
        by_factor = start["unit"] == "factor"
    else:
        tail = distinct[-3:]
        by_factor = len(tail) < 3 or tail[2] - tail[1] > 1.4 * (tail[1] - tail[0])  # noqa: PLR2004 - three sizes
    # If sizes are rounded, steps can be compared only for sizes far above the rounding.
    following = zip(distinct, distinct[1:])
    if any(b % a if by_factor else (b - a) % max(1, distinct[-1] - distinct[-2]) for a, b in following):
        distinct = [size for size in distinct if size >= _FAR_ABOVE_ROUNDING]
    pairs = [(a, b) for a, b in zip(distinct, distinct[1:]) if b > a]
    if len(pairs) < 2:  # noqa: PLR2004 - one value cannot be compared
        return []
    steps = [b / a if by_factor else float(b - a) for a, b in pairs]
    usual = min(steps)
    gaps = [pair for pair, step in zip(pairs, steps) if step > usual * _GAP]
    return [f"rows are missing between {a} B and {b} B" for a, b in gaps[:3]]


def _missing_ranks(run: Run) -> list[str]:
    seen = run["seen"]
    lines = seen["rank_lines"]
    start = seen["start"]
    if seen["elided"]:
        return []
    if not lines:
        return ["the rank lines are missing"] if seen["devices"] and start is not None else []
    if len(lines) != max(lines) + 1:
        ranks = max(lines) + 1
        if _is_excerpt(run, lines):
            return []
        return [f"{ranks - len(lines)} of {ranks} rank lines are missing"]
    return _too_few_ranks(run, lines, start)


def _is_excerpt(run: Run, lines: dict[int, tuple[str, str]]) -> bool:
    """Return whether the rank lines were shortened intentionally, as in published outputs.

    These show the first and the last rank of each host, or only the last, or begin at the last rank line. Lines that
    were lost by accident leave other gaps.
    """
    ranks = max(lines) + 1
    if list(lines) == [ranks - 1] and run["seen"]["start"] is None and not run["seen"]["named"]:
        return True
    hosts = dict.fromkeys(host for host, _ in lines.values())
    each, rest = divmod(ranks, len(hosts))
    if rest or len(hosts) < 2 or each < 3:  # noqa: PLR2004 - needs a rank between first and last
        return False
    shown = {host: {rank % each for rank, (on, _) in lines.items() if on == host} for host in hosts}
    apart = len({(rank // each, host) for rank, (host, _) in lines.items()}) == len(hosts)
    return apart and (all(s == {each - 1} for s in shown.values()) or all(s == {0, each - 1} for s in shown.values()))


def _too_few_ranks(run: Run, lines: dict[int, tuple[str, str]], start: dict[str, str] | None) -> list[str]:
    """Return the evidence that rank lines are missing at the end, where the numbering shows no gap."""
    if start is not None and not run["seen"]["repeated_ranks"]:
        share = int(start["threads"]) * int(start["gpus"])
        if share > 0 and len(lines) % share:
            return [f"{len(lines)} rank lines (expected a multiple of {share}, the ranks of a process)"]
    lacking = _lacking_on_last_host([lines[rank][0] for rank in sorted(lines)])
    # Ranks may be distributed unevenly, so several missing ranks count only if busbw / algbw does not give the number.
    if lacking == 1 or (lacking and bus_factor(run["program"], len(lines)) in {1.0, None}):
        return [f"the last host has {lacking} fewer rank line(s) than each other host"]
    if _ratio_contradicts(run, len(lines)):
        return [f"rank lines are missing: {len(lines)} ranks contradict busbw / algbw"]
    return []


def _lacking_on_last_host(hosts: list[str]) -> int:
    """Return how many fewer ranks the last host has, if all other hosts have the same number."""
    counts = list(Counter(hosts).values())
    return max(0, counts[0] - counts[-1]) if len(counts) > 1 and len(set(counts[:-1])) == 1 else 0


def _take_ranks(run: Run) -> None:
    """Set hosts and devices from the rank lines, and ranks and nodes if the lines are complete."""
    lines = run["seen"]["rank_lines"]
    if not lines:
        return
    run["devices"] = [lines[rank][1] for rank in sorted(lines)]
    run["hosts"] = list(dict.fromkeys(lines[rank][0] for rank in sorted(lines)))
    if len(lines) == max(lines) + 1 and not run["seen"]["elided"]:
        run["ranks"] = len(lines)
        run["nodes"] = len(run["hosts"])


def _wrong(run: Run) -> bool:
    if run["seen"]["failed_words"] or (run["out_of_bounds"] or 0) > 0:
        return True
    return run["seen"]["check"] != "error" and any((half["wrong"] or 0) > 0 for half in _halves(run))


def _outcome(run: Run, missing: list[str]) -> str:  # noqa: PLR0911 - one return for each outcome
    seen = run["seen"]
    footer = run["out_of_bounds"] is not None
    if seen["placeholders"]:
        return "template"
    if not seen["begun"]:
        return "error-only" if seen["failures"] or run["errors"] else "no-data"
    if not footer and seen["failures"]:
        return "crashed"
    if _wrong(run):
        return "wrong-results"
    if not run["rows"] and not footer:
        return "hung"
    if missing or not footer:
        return "truncated"
    return "contradictory" if run["contradictions"] else "ok"


def conclude(run: Run) -> None:
    """Set the keys outcome, ranks, nodes, devices and checked; record missing parts; remove the key "seen"."""
    seen = run["seen"]
    if not seen["check"] and any((half["wrong"] or 0) != int(half["wrong"] or 0) for half in _halves(run)):
        seen["check"] = "error"
    _take_ranks(run)
    run["checked"] = any(half["wrong"] is not None for half in _halves(run))
    run["cpu_time"] |= "cputime" in run["columns"]
    run["groups"] = max(1, len(seen["groups"]))
    has_footer = run["out_of_bounds"] is not None
    missing = missing_parts(run) if seen["begun"] and (has_footer or run["rows"]) else []
    if run["rows"] and not has_footer:
        missing.append("the footer (Out of bounds values) is missing")
    run["contradictions"] = contradictions(run)
    run["outcome"] = _outcome(run, missing)
    if run["outcome"] != "template":
        run["errors"] += missing
    del run["seen"]
