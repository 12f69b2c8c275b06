# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""Check that the rows of a table agree with themselves, with one another, and with the footer.

Sources in github.com/NVIDIA/nccl-tests:

- Tolerance of the error column: DeltaMaxValue(type) x (ranks - 1) (src/common.cu, CheckData, 2.0.0 to 2.11.0).
- Sizes: TimeTest of src/common.cu; <Program>GetCollByteCount rounds down by less than 16 bytes of each rank.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .bandwidths import bandwidth_problems
from .printed import printed_row

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["contradictions"]

Run = dict[str, Any]

MOST = 5
_QUOTED = 160
_HALVES = ("out_of_place", "in_place")
_EXCHANGING = ("alltoall", "sendrecv")
_TOLERANCE = {"half": 1e-2, "float16": 1e-2, "bfloat16": 1e-2, "bf16": 1e-2, "float": 1e-5, "float32": 1e-5}
_TOLERANCE_OF_DOUBLE = 1e-12
# If the number of ranks is unknown, the tolerance is that of many.
_MANY_RANKS = 1024
_ALIGNMENT = 16
_UNKNOWN_SLACK = 65536
_MOST_FACTOR_STEPS = 64


def contradictions(run: Run) -> list[str]:
    """Return at most five contradictions within a run, each with its line number and row.

    Args:
        run: a concluded run that still has its key "seen"; the printed rows are used.
    """
    found = [*_mixed(run), *_bad_cells(run), *_unlike_each_other(run), *_footer(run)]
    if run["rows"]:
        found += [*_sizes(run), *(_quote(run, row, words) for row, words in bandwidth_problems(run))]
    return list(dict.fromkeys(found))[:MOST]


def _mixed(run: Run) -> Iterator[str]:
    """Find tables of several processes that are mixed in one output."""
    if run["seen"]["repeated_ranks"]:
        yield "a rank is listed twice: outputs are mixed, or a launcher started a program without MPI several times"


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
    """Find N/A cells where the same half of similar rows was checked, and errors above the type's tolerance."""
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
                    yield _quote(run, number, f"the {_said(half)} result was not checked, unlike that of other rows")
            elif limit is not None and wrong > limit * _tolerance(row["type"]) and not _uncounted(run, row, half):
                most = limit * _tolerance(row["type"])
                words = f"the {_said(half)} error is {wrong:g}, at most {most:.1g} is right, and the footer says 0 OK"
                yield _quote(run, number, words)


def _error_limit(run: Run) -> float | None:
    """Return the maximum error as a multiple of the type's tolerance, None without an error column to check.

    The error is printed with one digit, so the actual value may be half of it more.
    """
    if run["seen"]["check"] != "error" or run["out_of_bounds"] != 0:
        return None
    start = run["seen"]["start"]
    ranks = run["ranks"] or _MANY_RANKS
    # The first versions add up the errors of all threads of a process.
    return 1.5 * max(1, ranks - 1) * (max(1, int(start["threads"])) if start is not None else 1)


def _uncounted(run: Run, row: dict[str, Any], half: str) -> bool:
    """Return whether a row has an error that the program does not count.

    From 2.9.0 to 2.11.0 the ranks of in-place alltoall and sendrecv overwrite data that others still read (reportErrors
    in src/alltoall.cu and src/sendrecv.cu). These rows have no operator and no root.
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


def _said(half: str) -> str:
    return half.replace("_", "-")


# -- the footer -------------------------------------------------------------------------------------------------------


def _footer(run: Run) -> Iterator[str]:
    """Find differences between the footer and the cells."""
    yield from run["seen"]["strange_footer"]
    if run["out_of_bounds"] == 0 and run["seen"]["check"] != "error":
        for number, row in enumerate(run["rows"]):
            if any(row[half] is not None and (row[half]["wrong"] or 0) > 0 for half in _HALVES):
                yield _quote(run, number, "elements are wrong, and the footer says that none is")
                return


# -- sizes ------------------------------------------------------------------------------------------------------------


def _sizes(run: Run) -> Iterator[str]:
    """Find sizes that decrease or do not match the declared step."""
    sizes = [row["size"] for row in run["rows"]]
    start = run["seen"]["start"]
    slack = _ALIGNMENT * run["ranks"] if run["ranks"] else _UNKNOWN_SLACK
    for number, (before, size) in enumerate(zip(sizes, sizes[1:]), start=1):
        # A sweep is repeated for each type, operator and root, and with -N. Rows of processes that print separate
        # tables are interleaved.
        if size < before and size > sizes[0] + slack and not run["seen"]["repeated_ranks"]:
            yield _quote(run, number, f"a size of {size} B comes after {before} B")
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
        wish = _wish(low, size, step, factor=factor)
        if size > high or not wish - slack < size <= wish:
            by = "times" if factor else "plus"
            yield _quote(run, number, f"{size} B is no size of a sweep from {low} B to {high} B, {by} {step}")
            return


def _wish(low: int, size: int, step: int, *, factor: bool) -> int:
    """Return the smallest size of the sweep that is at least a printed one."""
    if size <= low:
        return low
    if not factor:
        return low + -(-(size - low) // step) * step
    for _ in range(_MOST_FACTOR_STEPS):
        if low >= size:
            break
        low *= step
    return low
