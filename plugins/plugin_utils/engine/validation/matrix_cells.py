# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""Finds the cells of a bandwidth matrix that are slower than their neighbours.

Healthy machines have links of several kinds: a DGX-1 has pairs with two NVLinks, with one, and with PCIe alone. So a
cell is only held against those of its own kind. The kinds are those of ``nvidia-smi topo -m``; without it they are
found by their speed, and then a kind is taken for a fault only where it cannot be a design: one direction of a pair is
much slower than the other, or all GPUs have as many links of that kind but the two that share one more.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import combinations, pairwise
from statistics import median
from typing import Any

__all__ = ["Odd", "odd_cells"]

# NVLinks of one kind differ by 3 % in every published matrix; copies over PCIe by a third, from socket to socket.
_NVLINK_SHARE = 0.7
_PCIE_SHARE = 0.5
# One direction of a pair is never half as fast as the other by design.
_ONE_WAY = 0.5
# Kinds of links are a factor of 1.4 apart at least: one link or two, six or four, NVLink or PCIe.
_GAP = 1.4
_MEMORY_SHARE = 0.7
_FEW = 0.1
_MOST_ALONE = 6
_TWO_PAIRS = 4

Values = list[list[float | None]]


@dataclass(frozen=True)
class Odd:
    """A cell that is slower than it should be.

    Attributes:
        row: number of the GPU of the row; of a matrix with one row, 0.
        column: number of the GPU of the column.
        value: GB/s.
        usual: GB/s that it is held against.
        why: what that is, in words.
    """

    row: int
    column: int
    value: float
    usual: float
    why: str


def odd_cells(matrix: dict[str, Any], links: dict[str, str], floors: dict[str, float], *, nvlink: bool) -> list[Odd]:
    """Return the cells of a matrix that are too slow, each once.

    Args:
        matrix: as matrix_text.blank describes it, in GB/s.
        links: label of each pair in ``nvidia-smi topo -m``; an empty one when it is not known.
        floors: GB/s that a pair must reach, by pair such as "0-1"; an empty one for none.
        nvlink: whether the hardware has NVLink, so that less than 0.7 of the usual is too little.
    """
    values: Values = matrix["values"]
    if matrix["what"] == "each":
        return _each(values[0])
    found = _below(values, floors) + _own(values) + _one_way(values)
    whole = {f"{one}-{two}" for one, two in combinations(range(len(values)), 2)}
    if links.keys() == whole:
        found += _by_link(values, links)
    else:
        found += _by_speed(values, _NVLINK_SHARE if nvlink else _PCIE_SHARE)
    return list({(odd.row, odd.column): odd for odd in reversed(found)}.values())[::-1]


def _cells(values: Values) -> list[tuple[int, int, float]]:
    """Return row, column and value of each measured cell between two GPUs."""
    return [
        (row, column, value)
        for row, line in enumerate(values)
        for column, value in enumerate(line)
        if row != column and value is not None
    ]


def _pair(row: int, column: int) -> str:
    return f"{min(row, column)}-{max(row, column)}"


def _below(values: Values, floors: dict[str, float]) -> list[Odd]:
    held = [(row, column, value, floors.get(_pair(row, column), 0.0)) for row, column, value in _cells(values)]
    return [Odd(row, column, value, floor, "the floor") for row, column, value, floor in held if value < floor]


def _each(line: list[float | None]) -> list[Odd]:
    """Return the GPUs that are slower than half of the others' median."""
    found = []
    for column, value in enumerate(line):
        others = [other for place, other in enumerate(line) if place != column and other is not None]
        if value is not None and others and value < _PCIE_SHARE * median(others):
            found.append(Odd(0, column, value, median(others), "the median of the other GPUs"))
    return found


def _own(values: Values) -> list[Odd]:
    """Return the GPUs whose own memory is slower than that of the others; what is 0 was not measured."""
    own = [line[place] for place, line in enumerate(values)]
    found = []
    for place, value in enumerate(own):
        others = [other for number, other in enumerate(own) if number != place and other]
        if value and others and value < _MEMORY_SHARE * median(others):
            found.append(Odd(place, place, value, median(others), "the median of the other GPUs' own memory"))
    return found


def _one_way(values: Values) -> list[Odd]:
    """Return the cells that are much slower than the same pair the other way round."""
    found = []
    for row, column, value in _cells(values):
        back = values[column][row]
        if back is not None and value < _ONE_WAY * back:
            found.append(Odd(row, column, value, back, "the same pair the other way round"))
    return found


def _by_link(values: Values, links: dict[str, str]) -> list[Odd]:
    """Return the cells that are slower than those of pairs with the same label."""
    kinds: dict[str, list[tuple[int, int, float]]] = {}
    for row, column, value in _cells(values):
        kinds.setdefault(links[_pair(row, column)], []).append((row, column, value))
    found = []
    for label, cells in kinds.items():
        usual = median(value for _row, _column, value in cells)
        share = _NVLINK_SHARE if label.startswith("NV") else _PCIE_SHARE
        slow = [cell for cell in cells if cell[2] < share * usual] if len(cells) >= _TWO_PAIRS else []
        found += [Odd(row, column, value, usual, f"the median of all {label} pairs") for row, column, value in slow]
    return found


def _by_speed(values: Values, share: float) -> list[Odd]:
    """Return the cells of kinds of links that no design has."""
    speed: dict[tuple[int, int], float] = {}
    for row, column, value in _cells(values):
        pair = (min(row, column), max(row, column))
        speed[pair] = max(speed.get(pair, 0.0), value)
    ordered = sorted(speed, key=lambda pair: speed[pair])
    ends = [place for place, (one, two) in enumerate(pairwise(ordered), start=1) if speed[two] > _GAP * speed[one]]
    found = []
    for begin, end in pairwise([0, *ends]):
        usual = median([speed[pair] for pair in ordered[end:]])
        for one, two in _misfits(ordered[begin:end], len(values), len(speed)):
            both = [(row, column, values[row][column]) for row, column in ((one, two), (two, one))]
            found += [
                Odd(row, column, value, usual, "the median of the faster pairs")
                for row, column, value in both
                if value is not None and value < share * usual
            ]
    return found


def _misfits(pairs: list[tuple[int, int]], gpus: int, total: int) -> list[tuple[int, int]]:
    """Return the pairs of a slower kind of links that are no part of a design.

    A design gives every GPU as many links of a kind. Two GPUs that have one more, and share it, have lost a faster one;
    so has a GPU that is slow with all of five others or more.
    """
    count = Counter(gpu for pair in pairs for gpu in pair)
    degrees = [count[gpu] for gpu in range(gpus)]
    if len(set(degrees)) == 1:
        return []
    if len(pairs) <= _FEW * total:
        return pairs
    for usual in sorted(set(degrees)):
        more = [gpu for gpu, degree in enumerate(degrees) if degree != usual]
        if len(more) == 1 and gpus >= _MOST_ALONE and degrees[more[0]] == gpus - 1 and usual <= 1:
            return [pair for pair in pairs if more[0] in pair]
        pair = (more[0], more[-1])
        if len(more) == 2 and all(degrees[gpu] == usual + 1 for gpu in more) and pair in pairs:  # noqa: PLR2004
            return [pair]
    return []
