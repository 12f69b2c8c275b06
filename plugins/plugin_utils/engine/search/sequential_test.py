# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""Decide whether a test is fast, slow or needs more repeats, by a sequential test of its repeats.

All values are natural logarithms of busbw / floor, so that differences are relative. A test with n repeats has the mean
y and the noise s (standard deviation of one repeat). With the limit m and the smallest drop to detect d, a fast test
has a true mean of at least m + d/2, and a slow one of at most m - d/2. The generalized likelihood ratio of the two is

    L = n / (2 s^2) * ((y - min(y, m - d/2))^2 - (y - max(y, m + d/2))^2)

The test is fast if L >= B, slow if L <= -B, and repeated in between. This is Wald's sequential test (A. Wald,
Sequential Tests of Statistical Hypotheses, Ann. Math. Statist. 16, 1945) for composite hypotheses with an indifference
zone (T. L. Lai, Nearly Optimal Sequential Tests of Composite Hypotheses, Ann. Statist. 16, 1988). With B = ln(1 /
0.0001), about one decision in 10,000 is wrong. The search requires at least two failed tests with different partners
before it blames a node.

For a drop d, L has the mean D^2 / 2 and the standard deviation D, with D = d sqrt(n) / s. With D = 8.3, the mean is
three standard deviations above B, so n = (8.3 s / d)^2 repeats decide all tests except one in 700, which is repeated.
If a round has fewer repeats, the smallest detectable drop is 6.7 s / sqrt(n), at which the mean is two standard
deviations above B.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, log, sqrt
from statistics import fmean, median

# Defaults: the smallest drop to detect, as a fraction, and the maximum number of repeats per round.
DROP = 0.10
MOST_REPEATS = 16
# Number of repeats while the noise is unknown.
FIRST_REPEATS = 3
BOUND = log(1 / 0.0001)
_DISTANCE = 6.7
_AT_ONCE = 8.3
_PEERS = 5
_UNKNOWN_NOISE = 0.05
_LEAST_NOISE = 0.01
# One-sided 95 % bound of the normal distribution.
_ONE_IN_TWENTY = -1.6449
# Maximum share of slow tests among the compared ones.
_FASTEST_THIRD = 2 / 3
_FLOOR_OF_LOG = 1e-9


@dataclass
class Noise:
    """The variation between repeats of the same test, pooled over all tests.

    Attributes:
        squares: sum of the squared distances from each test's mean.
        freedom: degrees of freedom of that sum.
    """

    squares: float = 0.0
    freedom: int = 0

    def add(self, samples: list[float]) -> None:
        """Add the repeats of one test, given as logarithms."""
        if len(samples) > 1:
            middle = fmean(samples)
            self.squares += sum((sample - middle) ** 2 for sample in samples)
            self.freedom += len(samples) - 1

    def remove(self, samples: list[float]) -> None:
        """Remove the repeats of one test, before they are added again together with new ones."""
        if len(samples) > 1:
            middle = fmean(samples)
            self.squares = max(0.0, self.squares - sum((sample - middle) ** 2 for sample in samples))
            self.freedom -= len(samples) - 1

    @property
    def known(self) -> bool:
        """Whether any test was repeated."""
        return self.freedom > 0

    def level(self, means: list[float]) -> float:
        """Return the standard deviation of one repeat as a fraction: its upper 95 % bound, at least 1 %.

        Chi squared uses the approximation of Wilson and Hilferty (Proc. Natl. Acad. Sci. 17, 1931). Without repeats,
        the value is estimated from the faster half of the pairs and includes differences between nodes: 2.5 times the
        median distance from the median of that half, which is 0.4 standard deviations of a normal distribution. With
        too few pairs it is 5 %.

        Args:
            means: means of the tests of two nodes, as logarithms.
        """
        if self.freedom:
            part = 2 / (9 * self.freedom)
            chi = self.freedom * max(0.05, 1 - part + _ONE_IN_TWENTY * sqrt(part)) ** 3
            return max(_LEAST_NOISE, sqrt(self.squares / chi))
        if len(means) < _PEERS:
            return _UNKNOWN_NOISE
        half = sorted(means)[len(means) // 2 :]
        middle = median(half)
        return max(_LEAST_NOISE, 2.5 * median(abs(mean - middle) for mean in half))


def logarithm(score: float) -> float:
    """Return the logarithm of a score; 0 counts as 1e-9."""
    return log(max(score, _FLOOR_OF_LOG))


def smallest_drop(noise: float, drop: float = DROP, most: int = MOST_REPEATS) -> float:
    """Return the smallest drop, as a logarithm, that `most` repeats can detect despite the noise, at least `drop`."""
    return max(-log(1 - drop), _DISTANCE * noise / sqrt(most))


def repeats_for(noise: float, distance: float) -> int:
    """Return the number of repeats needed to detect a drop, given as a logarithm, despite the noise."""
    return max(1, ceil((_AT_ONCE * noise / distance) ** 2 - 1e-9))


def normal(means: list[float], distance: float) -> float | None:
    """Return the normal value of tests of the same size, or None if there are too few.

    The result is the median of the tests that are not clearly below the fastest third. It is correct if less than two
    thirds of the tests are slow.
    """
    if len(means) < _PEERS:
        return None
    ordered = sorted(means)
    fast = ordered[min(len(ordered) - 1, int(len(ordered) * _FASTEST_THIRD))]
    return median(mean for mean in ordered if mean >= fast - distance / 2)


def fastest(means: list[float], distance: float) -> float:
    """Return the median of the fastest tests, for any number of tests."""
    return median(mean for mean in means if mean >= max(means) - distance / 2)


def limit(reference: float | None, distance: float, *, floor: bool) -> float | None:
    """Return the logarithm of the limit between fast and slow, or None without floor and reference."""
    found = [0.0] if floor else []
    if reference is not None:
        found.append(reference - distance / 2)
    return max(found, default=None)


def likelihood(samples: list[float], at: float, noise: float, distance: float) -> float:
    """Return the logarithm of the likelihood ratio of a fast to a slow test."""
    mean, slow, fast = fmean(samples), at - distance / 2, at + distance / 2
    return len(samples) / (2 * noise**2) * ((mean - min(mean, slow)) ** 2 - (mean - max(mean, fast)) ** 2)
