# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""Judge each cell of a node's bandwidth matrices against its hardware profile and against similar cells.

Healthy machines have several kinds of links: a DGX-1 has pairs with two NVLinks, one NVLink, and PCIe only. A cell is
therefore compared only with cells of the same kind. The kinds come from ``nvidia-smi topo -m``. Without it they are
derived from the speed, and a slower cell is a fault only if no server design explains it: one direction of a pair is
much slower than the other, or all GPUs have the same number of slower links except two that share one more.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import combinations
from statistics import median
from typing import TYPE_CHECKING, Any

from .nccl_judge import FAIL, INCONCLUSIVE, PASS

if TYPE_CHECKING:
    Values = list[list[float | None]]

# Share of the NVLink line rate that each pair must reach. Copy engines reach 0.82 (H100, 371 of 450 GB/s: Azure's
# health checks for ND96isr_H100_v5, which require 335), 0.86 (H800, 172 of 200) and 0.92 (A100, 276 of 300).
_NVLINK_SHARE = 0.7
# Copies through host memory reach 5.7 GB/s over PCIe 3 x16 (2 x RTX 2080 Ti) and 10.9 (4 x V100, Dell's guide of 2019);
# slots with four lanes have a quarter of the rate.
_PCIE_GBS = 15.75
_PCIE_SHARE = 0.2
_ODD_LATENCY = 3.0
_MOST_FINDINGS = 12
_MOST_NAMED = 3
_TWO = 2
# In all published matrices, NVLinks of one kind differ by up to 3 %, and PCIe copies between sockets by up to a third.
_NVLINK_ALIKE = 0.7
_PCIE_ALIKE = 0.5
# In no server design is one direction of a pair half as fast as the other.
_ONE_WAY = 0.5
# Link types differ in bandwidth by at least 1.4x: one or two links, four or six, NVLink or PCIe.
_GAP = 1.4
_MEMORY_SHARE = 0.7
_FEW = 0.1
_MOST_ALONE = 6
_TWO_PAIRS = 4


def pair_floor(profile: dict[str, Any] | None, wanted: float = 0.0) -> tuple[float | None, str | None]:
    """Return the floor of each GPU pair with direct access, in GB/s per direction, and its source.

    Args:
        profile: the hardware profile; its p2p (floor_gbs and source) applies, otherwise a share of the computed line
            rate.
        wanted: floor in GB/s from the options, which overrides the profile's; 0 for none.
    """
    if wanted > 0:
        return wanted, "set by an option"
    if profile is None or not profile.get("gpu"):
        return None, None
    if profile.get("p2p"):
        return float(profile["p2p"]["floor_gbs"]), str(profile["p2p"]["source"])
    line = float(profile["gpu"].get("nvlink_gbs") or 0)
    if line > 0:
        return line * _NVLINK_SHARE, f"{_NVLINK_SHARE} of the line rate of the GPU's NVLinks, {line:g} GB/s"
    return _PCIE_GBS * _PCIE_SHARE, f"{_PCIE_SHARE} of the line rate of PCIe 3 x16, {_PCIE_GBS} GB/s"


def judge_matrices(data: dict[str, Any], about: dict[str, Any]) -> dict[str, Any]:
    """Return the verdict, reason and findings for a node's matrices, and their values for the report.

    Args:
        data: in the format of matrix_parser.blank.
        about: node (its name), hardware, profile (None if unknown) and options (p2p_floor_gbs).

    Returns:
        verdict, reason, findings, floor (GB/s) and source; program, version, devices; pairs (the reported GPU pairs, or
        single GPUs that are slow on their own); lowest_gbs (of the pairs with this floor); and matrices, each with odd
        (row and column of its slow cells).
    """
    profile = about["profile"]
    floor, source = pair_floor(profile, float((about["options"] or {}).get("p2p_floor_gbs") or 0))
    found = [(matrix, _odd(matrix, data, floor, profile)) for matrix in data["matrices"]]
    slow = [(matrix, odd) for matrix, cells in found for odd in cells]
    verdict, reason = _verdict(data, about, slow, floor)
    lowest = _lowest(data)
    return {
        "verdict": verdict,
        "reason": reason,
        "findings": [words for words in _findings(data, slow, skip_worst=verdict == FAIL) if words not in reason],
        "floor": floor,
        "source": source,
        "program": data["program"],
        "version": data["version"],
        "devices": data["devices"],
        "pairs": _named(slow) if verdict == FAIL else [],
        "lowest_gbs": lowest[0] if lowest else None,
        "matrices": [
            {key: matrix[key] for key in ("title", "unit", "what", "p2p", "rows", "columns", "values")}
            | {"odd": [[odd.row, odd.column] for odd in cells]}
            for matrix, cells in found
        ],
    }


def _odd(
    matrix: dict[str, Any], data: dict[str, Any], floor: float | None, profile: dict[str, Any] | None
) -> list[Odd]:
    if matrix["unit"] != "GB/s" or matrix["what"] == "latency":
        return []
    nvlink = bool(((profile or {}).get("gpu") or {}).get("nvlink_gbs"))
    if not matrix["p2p"]:
        return odd_cells(matrix, {}, {}, nvlink=False)
    gpus, line = range(len(matrix["columns"])), float(((profile or {}).get("gpu") or {}).get("nvlink_gbs") or 0)
    floors = {f"{one}-{two}": floor or 0.0 for one, two in combinations(gpus, 2)}
    for pair, own in _by_links(data["links"], line if (profile or {}).get("p2p") else 0.0).items():
        floors[pair] = max(floors.get(pair, 0.0), own)
    return odd_cells(matrix, data["links"], floors, nvlink=nvlink)


def _by_links(links: dict[str, str], line: float) -> dict[str, float]:
    """Return the floor of each pair in an NVLink mesh, GB/s: a share of the line rate of the pair's links.

    A profile with p2p describes such a mesh, in which a GPU's links lead to different GPUs.
    """
    count = {pair: int(label[2:]) for pair, label in links.items() if label.startswith("NV") and label[2:].isdecimal()}
    whole: Counter[str] = Counter()
    for pair, number in count.items():
        for gpu in pair.split("-"):
            whole[gpu] += number
    most = max(whole.values(), default=0)
    return {pair: _NVLINK_SHARE * line * number / most for pair, number in count.items()} if most else {}


def _verdict(
    data: dict[str, Any], about: dict[str, Any], slow: list[tuple[dict[str, Any], Odd]], floor: float | None
) -> tuple[str, str]:
    """Return the verdict and reason: whether the data is valid and complete, and each pair is fast enough."""
    node, gpus = about["node"], _gpus(data)
    if data["wrong"]:
        return FAIL, f"{node}: copied data is wrong: {data['wrong'][0]}"
    missing = _missing(data, about)
    if missing:
        return INCONCLUSIVE, missing
    if slow:
        return FAIL, f"{node}: {_slow_words(slow)}"
    if floor is None:
        name = about["hardware"]
        return INCONCLUSIVE, f"unknown hardware {name!r}: no floor" if name else "no hardware profile: no floor"
    value, pair, title = _lowest(data) or (0.0, (0, 0), "")
    slowest = f"slowest GPU {pair[0]} and GPU {pair[1]}: {value:.4g} GB/s ({title})"
    return PASS, f"{gpus} GPUs, all pairs at {floor:.4g} GB/s or more and similar to comparable pairs; {slowest}"


def _missing(data: dict[str, Any], about: dict[str, Any]) -> str:
    """Return what is missing for a verdict; empty if the data is complete."""
    gpus = _gpus(data)
    wanted = int(((about["profile"] or {}).get("gpu") or {}).get("count") or 0)
    if data["errors"]:
        return f"{about['node']}: {data['errors'][0]}"
    if wanted and gpus != wanted:
        return f"{about['node']}: {gpus} GPU(s) took part (expected {wanted})"
    return f"{about['node']}: no pair of GPUs was measured" if _lowest(data) is None else ""


def _gpus(data: dict[str, Any]) -> int:
    return max((len(matrix["columns"]) for matrix in data["matrices"]), default=0)


def _lowest(data: dict[str, Any]) -> tuple[float, tuple[int, int], str] | None:
    cells = [
        (value, (min(row, column), max(row, column)), matrix["title"])
        for matrix in data["matrices"]
        if matrix["p2p"]
        for row, line in enumerate(matrix["values"])
        for column, value in enumerate(line)
        if value is not None and row != column
    ]
    return min(cells, default=None)


def _named(slow: list[tuple[dict[str, Any], Odd]]) -> list[list[int]]:
    """Return the GPUs of the slow cells, worst first."""
    share: dict[tuple[int, ...], float] = {}
    for matrix, odd in slow:
        alone = matrix["what"] == "each" or odd.row == odd.column
        gpus = (odd.column,) if alone else (min(odd.row, odd.column), max(odd.row, odd.column))
        share[gpus] = min(share.get(gpus, 1.0), odd.value / odd.usual)
    return [list(gpus) for gpus in sorted(share, key=lambda gpus: (share[gpus], gpus))]


def _who(gpus: list[int]) -> str:
    return " and ".join(f"GPU {gpu}" for gpu in gpus)


def _slow_words(slow: list[tuple[dict[str, Any], Odd]]) -> str:
    """Return a description of the worst cell, and of the other slow GPUs."""
    named = _named(slow)
    matrix, odd = min(slow, key=lambda item: item[1].value / item[1].usual)
    what = f"{odd.value:.4g} GB/s ({odd.why}: {odd.usual:.4g}; {_place(matrix, odd)})"
    shared = set(named[0]).intersection(*named)
    if len(named) > _TWO and len(shared) == 1:
        return f"GPU {shared.pop()} is slow with {len(named)} other GPUs, slowest {_who(named[0])}: {what}"
    more = [_who(gpus) for gpus in named[1 : _MOST_NAMED + 1]]
    rest = f", {len(named) - 1 - len(more)} more" if len(named) > _MOST_NAMED + 1 else ""
    return f"{_who(named[0])}: {what}{'; also ' + ', '.join(more) + rest if more else ''}"


def _place(matrix: dict[str, Any], odd: Odd) -> str:
    if matrix["what"] == "each":
        return f"{matrix['title']}, column {odd.column}"
    return f"{matrix['title']}, row {odd.row}, column {odd.column}"


def _findings(data: dict[str, Any], slow: list[tuple[dict[str, Any], Odd]], *, skip_worst: bool) -> list[str]:
    """Return the slow cells (except the worst if `skip_worst`), high latencies, and the notes in the output."""
    found = [
        f"{_place(matrix, odd)}: {odd.value:.4g} GB/s ({odd.why}: {odd.usual:.4g})"
        for matrix, odd in sorted(slow, key=lambda item: item[1].value / item[1].usual)
    ][1 if skip_worst else 0 :]
    for matrix in data["matrices"]:
        if matrix["what"] == "latency":
            found += _late(matrix)
    found += data["notes"]
    found += data["errors"]
    return found[:_MOST_FINDINGS] + ([f"and {len(found) - _MOST_FINDINGS} more"] if len(found) > _MOST_FINDINGS else [])


def _late(matrix: dict[str, Any]) -> list[str]:
    """Return a finding for each pair with a much higher latency than the others.

    A latency is never a fault, because the CUDA samples state that their results may vary.
    """
    cells = [
        (row, column, value)
        for row, line in enumerate(matrix["values"])
        for column, value in enumerate(line)
        if value is not None and row != column
    ]
    usual = median(value for _row, _column, value in cells) if cells else 0.0
    return [
        f"{matrix['title']}, row {row}, column {column}: {value:.4g} {matrix['unit']} (median: {usual:.4g})"
        for row, column, value in cells
        if value > _ODD_LATENCY * usual
    ]


@dataclass(frozen=True)
class Odd:
    """A cell that is too slow.

    Attributes:
        row: GPU of the row; 0 in a matrix with one row.
        column: GPU of the column.
        value: GB/s.
        usual: reference in GB/s.
        why: description of the reference.
    """

    row: int
    column: int
    value: float
    usual: float
    why: str


def odd_cells(matrix: dict[str, Any], links: dict[str, str], floors: dict[str, float], *, nvlink: bool) -> list[Odd]:
    """Return the cells of a matrix that are too slow, without duplicates.

    Args:
        matrix: in the format of matrix_parser.blank, in GB/s.
        links: label of each pair in ``nvidia-smi topo -m``; empty if unknown.
        floors: floor in GB/s by pair, such as "0-1"; empty for none.
        nvlink: whether the hardware has NVLink, so that less than 0.7 of the usual value is too slow.
    """
    values: Values = matrix["values"]
    if matrix["what"] == "each":
        return _each(values[0])
    found = _below(values, floors) + _own(values) + _one_way(values)
    whole = {f"{one}-{two}" for one, two in combinations(range(len(values)), 2)}
    if links.keys() == whole:
        found += _by_link(values, links)
    else:
        found += _by_speed(values, _NVLINK_ALIKE if nvlink else _PCIE_ALIKE)
    return list({(odd.row, odd.column): odd for odd in reversed(found)}.values())[::-1]


def _cells(values: Values) -> list[tuple[int, int, float]]:
    """Return the row, column and value of each measured cell between two GPUs."""
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
    """Return the GPUs that are slower than half of the median of the others."""
    found = []
    for column, value in enumerate(line):
        others = [other for place, other in enumerate(line) if place != column and other is not None]
        if value is not None and others and value < _PCIE_ALIKE * median(others):
            found.append(Odd(0, column, value, median(others), "the median of the other GPUs"))
    return found


def _own(values: Values) -> list[Odd]:
    """Return the GPUs whose local memory is slower than that of the others; 0 means not measured."""
    own = [line[place] for place, line in enumerate(values)]
    found = []
    for place, value in enumerate(own):
        others = [other for number, other in enumerate(own) if number != place and other]
        if value and others and value < _MEMORY_SHARE * median(others):
            found.append(Odd(place, place, value, median(others), "the median of the local memory of other GPUs"))
    return found


def _one_way(values: Values) -> list[Odd]:
    """Return the cells that are much slower than the reverse direction of the same pair."""
    found = []
    for row, column, value in _cells(values):
        back = values[column][row]
        if back is not None and value < _ONE_WAY * back:
            found.append(Odd(row, column, value, back, "the same pair in the other direction"))
    return found


def _by_link(values: Values, links: dict[str, str]) -> list[Odd]:
    """Return the cells that are slower than other pairs with the same label."""
    kinds: dict[str, list[tuple[int, int, float]]] = {}
    for row, column, value in _cells(values):
        kinds.setdefault(links[_pair(row, column)], []).append((row, column, value))
    found = []
    for label, cells in kinds.items():
        usual = median(value for _row, _column, value in cells)
        share = _NVLINK_ALIKE if label.startswith("NV") else _PCIE_ALIKE
        slow = [cell for cell in cells if cell[2] < share * usual] if len(cells) >= _TWO_PAIRS else []
        found += [Odd(row, column, value, usual, f"the median of all {label} pairs") for row, column, value in slow]
    return found


def _by_speed(values: Values, share: float) -> list[Odd]:
    """Return the cells with a slower kind of link that no server design explains."""
    speed: dict[tuple[int, int], float] = {}
    for row, column, value in _cells(values):
        pair = (min(row, column), max(row, column))
        speed[pair] = max(speed.get(pair, 0.0), value)
    ordered = sorted(speed, key=lambda pair: speed[pair])
    ends = [place for place, (one, two) in enumerate(zip(ordered, ordered[1:]), 1) if speed[two] > _GAP * speed[one]]
    found = []
    for begin, end in zip([0, *ends], ends):
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
    """Return the pairs with a slower kind of link that no server design explains.

    In every design, all GPUs have the same number of links of a kind. If two GPUs share one additional slower link, or
    one GPU is slow with every other GPU (at least five), a faster link has failed.
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
