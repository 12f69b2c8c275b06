# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""Examine all message sizes of a test: dips in the bandwidth, and sizes at which peers are faster.

All results are findings and not faults, because small sizes depend on latency and NCCL's choice of algorithm.
"""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING, Any

from ..common.printable import human_size

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

# Maps size in bytes to time in microseconds and busbw in GB/s, both medians over repeats of the out-of-place half.
Curve = dict[int, tuple[float, float]]
# The bandwidth drops slightly where NCCL changes protocol or algorithm, and short times vary. Of 200 published runs,
# two drop this far below neighbouring sizes at 1 MiB or more: GH200 nodes without their network plugin (cscs-docs,
# commit 80abed1), and two H200 nodes (weijielee-galaxy/nccl-test-web, commit 62d0c6c). None drops this far at the end.
_DIP = 0.65
_END = 0.7
_FROM_BYTES = 1 << 20
_MOST = 3
# Up to this size, times are compared instead of bandwidths, because latency dominates.
_LATENCY_BYTES = 64 << 10
# Lower bound of the tolerance for short times, and for bandwidths below the plateau.
_SLOWER = 0.5
_LOWER = 0.2
LEAST = 0.05
_DEVIATIONS = 3.5
_TO_SIGMA = 1.4826
_LARGEST = 0.5


def curve_of(runs: Sequence[Mapping[str, Any]]) -> Curve:
    """Return the curve of one program's runs; sizes without a time or a bandwidth are left out."""
    found: dict[int, list[tuple[float, float]]] = {}
    for run in runs:
        for row in run.get("rows") or []:
            half = row["out_of_place"] or {}
            time, busbw = half.get("time_us"), half.get("busbw")
            if row["size"] > 0 and time and busbw:
                found.setdefault(row["size"], []).append((float(time), float(busbw)))
    return {
        size: (median(time for time, _ in points), median(busbw for _, busbw in points))
        for size, points in sorted(found.items())
    }


def dips(curve: Curve) -> list[str]:
    """Return the sizes, including the largest, where busbw is lower than with smaller messages."""
    points = [(size, busbw) for size, (_time, busbw) in curve.items()]
    found = [
        f"dip at {human_size(size)}: {busbw:.4g} GB/s, but {before:.4g} and {after:.4g} GB/s at the adjacent sizes"
        for (_, before), (size, busbw), (_, after) in zip(points, points[1:], points[2:])
        if size >= _FROM_BYTES and busbw < _DIP * min(before, after)
    ]
    best = max((busbw for _size, busbw in points), default=0.0)
    if points and points[-1][0] >= _FROM_BYTES and points[-1][1] < _END * best:
        found.append(
            f"bandwidth drops at the largest size: {points[-1][1]:.4g} GB/s at {human_size(points[-1][0])}, but "
            f"{best:.4g} GB/s at a smaller one"
        )
    return found[:_MOST]


def behind_peers(curve: Curve, peers: Sequence[Curve]) -> list[str]:
    """Return the sizes below the largest at which a test is slower than its peers, the worst first.

    Args:
        curve: curve of the test.
        peers: curves of all comparable tests, including this one.
    """
    found: list[tuple[float, str]] = []
    for size, (time, busbw) in list(curve.items())[:-1]:
        same = [peer[size] for peer in peers if size in peer]
        if 2 * len(same) <= len(peers):
            continue
        many = f"the median of {len(same)} similar tests"
        if size <= _LATENCY_BYTES:
            middle, more = median_and_tolerance([item[0] for item in same], _SLOWER)
            if time > middle + more:
                words = f"latency at {human_size(size)}: {time:.4g} us ({many}: {middle:.4g} us)"
                found.append((time / middle, words))
            continue
        middle, less = median_and_tolerance([item[1] for item in same], _LOWER)
        if busbw < middle - less:
            words = f"busbw at {human_size(size)}: {busbw:.4g} GB/s ({many}: {middle:.4g} GB/s)"
            found.append((middle / busbw, words))
    return [words for _share, words in sorted(found, reverse=True)[:_MOST]]


def median_and_tolerance(values: Sequence[float], least: float = LEAST, *, proof: bool = False) -> tuple[float, float]:
    """Return the median of the values and the tolerated deviation below it, both in the unit of the values.

    The deviation is 3.5 robust standard deviations (1.4826 times the median absolute deviation; Iglewicz and Hoaglin,
    How to Detect and Handle Outliers, 1993), at least a share of the median, and at most half of the median.

    Args:
        values: the values.
        least: minimum deviation, as a fraction of the median.
        proof: whether a lower value blames a node and is not only a finding. The share is then added to the noise: of
            10,000 healthy fleets of 5 to 100 nodes with 2 % noise, at most three instead of 170 have a node below the
            result.

    Raises:
        ValueError: `values` is empty.
    """
    if not values:
        message = "the median requires at least one value"
        raise ValueError(message)
    middle = median(values)
    deviation = median([abs(value - middle) for value in values])
    noise, share = _DEVIATIONS * _TO_SIGMA * deviation, least * abs(middle)
    return middle, min(noise + share if proof else max(noise, share), _LARGEST * abs(middle))
