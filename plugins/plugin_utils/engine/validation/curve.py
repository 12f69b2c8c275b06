# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""The whole curve of a test, not only the largest size of its verdict: dips, and sizes at which peers are faster.

All of it is a finding: small sizes tell of latency and of NCCL's choice of algorithm, which nothing promises.
"""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING, Any

from ..common.printable import human_size

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["LEAST", "Curve", "behind_peers", "curve_of", "dips", "median_and_tolerance"]

# Size in bytes to microseconds and busbw in GB/s, each the median over repeats of the out-of-place half.
Curve = dict[int, tuple[float, float]]
# Where NCCL changes protocol or algorithm a healthy curve steps back a little, and short times scatter. Of 200
# published runs two fall so far between their neighbours at 1 MiB or more: GH200 nodes without their network plugin
# (cscs-docs, commit 80abed1), and two H200 nodes (weijielee-galaxy/nccl-test-web, commit 62d0c6c). None ends so low.
_DIP = 0.65
_END = 0.7
_FROM_BYTES = 1 << 20
_MOST = 3
# Up to there the time is latency, and bandwidth says little.
_LATENCY_BYTES = 64 << 10
# What is ordinary of so short a time, and of a bandwidth below the plateau, however close together the peers lie.
_SLOWER = 0.5
_LOWER = 0.2
LEAST = 0.05
_DEVIATIONS = 3.5
_TO_SIGMA = 1.4826
_LARGEST = 0.5


def curve_of(runs: Sequence[Mapping[str, Any]]) -> Curve:
    """Return the curve of the runs of one program; sizes without a time or a bandwidth are left out."""
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
    """Return where busbw falls at one size, or at the largest, though smaller messages were faster."""
    points = [(size, busbw) for size, (_time, busbw) in curve.items()]
    found = [
        f"dip at {human_size(size)}: {busbw:.4g} GB/s, between {before:.4g} and {after:.4g}"
        for (_, before), (size, busbw), (_, after) in zip(points, points[1:], points[2:])
        if size >= _FROM_BYTES and busbw < _DIP * min(before, after)
    ]
    best = max((busbw for _size, busbw in points), default=0.0)
    if points and points[-1][0] >= _FROM_BYTES and points[-1][1] < _END * best:
        found.append(f"the curve falls: {points[-1][1]:.4g} GB/s at {human_size(points[-1][0])}, {best:.4g} before")
    return found[:_MOST]


def behind_peers(curve: Curve, peers: Sequence[Curve]) -> list[str]:
    """Return the sizes below the largest at which a test is slower than those like it, the worst first.

    Args:
        curve: of the test.
        peers: of all tests that are alike, its own among them.
    """
    found: list[tuple[float, str]] = []
    for size, (time, busbw) in list(curve.items())[:-1]:
        same = [peer[size] for peer in peers if size in peer]
        if 2 * len(same) <= len(peers):
            continue
        many = f"the median of {len(same)} like tests"
        if size <= _LATENCY_BYTES:
            middle, more = median_and_tolerance([item[0] for item in same], _SLOWER)
            if time > middle + more:
                words = f"latency at {human_size(size)}: {time:.4g} us, {many} is {middle:.4g} us"
                found.append((time / middle, words))
            continue
        middle, less = median_and_tolerance([item[1] for item in same], _LOWER)
        if busbw < middle - less:
            words = f"busbw at {human_size(size)}: {busbw:.4g} GB/s, {many} is {middle:.4g} GB/s"
            found.append((middle / busbw, words))
    return [words for _share, words in sorted(found, reverse=True)[:_MOST]]


def median_and_tolerance(values: Sequence[float], least: float = LEAST, *, proof: bool = False) -> tuple[float, float]:
    """Return the median of some figures and how far below it is still ordinary, both in the figures' unit.

    That is 3.5 robust standard deviations (1.4826 times the median absolute deviation; Iglewicz and Hoaglin, How to
    Detect and Handle Outliers, 1993), and at least a share of the median. Less than half of the median is never
    ordinary, however noisy the figures are.

    Args:
        values: the figures.
        least: the share of the median that is ordinary however close together they lie.
        proof: whether what lies below is to be blamed and not only named. Then the share comes on top of the noise: of
            10,000 healthy fleets of 5 to 100 nodes with 2 % noise three at most have a node below it, instead of 170.

    Raises:
        ValueError: `values` is empty.
    """
    if not values:
        message = "no figures to take a median of"
        raise ValueError(message)
    middle = median(values)
    deviation = median([abs(value - middle) for value in values])
    noise, share = _DEVIATIONS * _TO_SIGMA * deviation, least * abs(middle)
    return middle, min(noise + share if proof else max(noise, share), _LARGEST * abs(middle))
