# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""Classify the tests of a round as fast, slow or undecided (to be repeated).

The normal value comes from tests with about the same number of nodes. If there are too few, that of the nearest size is
used, but then a slow test only makes its nodes suspected.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import exp, log1p, log2, sqrt
from statistics import fmean
from typing import TYPE_CHECKING, Any

from ..common.option_names_in_messages import option
from . import sequential_test
from .search_data import NONE, OPEN, PASSED, SLOW, Outcome

if TYPE_CHECKING:
    from collections.abc import Iterable

_PAIR = 2
# Tests whose node counts differ by at most this factor are compared.
_NEAR = 1.25
_CLEAR = 0.75
_MOST_TESTS = 100
_LEAST_SUSPECTED = 4

# Number of nodes, and scope: whether NVLink or the network connects them. Tests of the same kind are compared.
_Kind = tuple[int, str]


@dataclass
class Reading:
    """The measurements of one test so far.

    Attributes:
        nodes: the nodes that take part.
        places: positions of its results in the given list.
        samples: logarithms of busbw over floor (of busbw in GB/s without a floor), one per repeat.
        floor: whether a floor is known.
        broken: the outcome if nothing was measured, such as crashed; otherwise empty.
        verdict: positive for fast, negative for slow, 0 if undecided; None without a reference.
        sure: see Outcome.
        counted: the samples included in the noise estimate.
        error: standard deviation of the mean of the samples.
        margin: see Outcome.
        drawn: whether the test belongs to a stage that tests all nodes in the same way, regardless of slow results;
            only such tests serve as the reference.
        rounding: rounding error of a value, as a fraction.
        coarse: whether the rounding error alone may explain why the test is slow; more repeats cannot decide it.
        needed: whether the search waits for a decision; other tests may stay undecided.
    """

    nodes: tuple[str, ...]
    drawn: bool = True
    needed: bool = True
    places: list[int] = field(default_factory=list)
    samples: list[float] = field(default_factory=list)
    scope: str = ""
    floor: bool = False
    broken: str = ""
    verdict: float | None = 0.0
    sure: bool = True
    error: float = 0.0
    margin: float = 0.0
    counted: list[float] = field(default_factory=list)
    rounding: float = 0.0
    coarse: bool = False

    @property
    def kind(self) -> _Kind:
        """Number of nodes, and scope of the test."""
        return len(self.nodes), self.scope

    @property
    def tends(self) -> bool:
        """Whether the result can be used without more repeats: certainly slow, or more likely fast than slow."""
        return bool(self.broken) or (self.verdict is not None and not -sequential_test.BOUND < self.verdict <= 0)

    def take(self, result: dict[str, Any], place: int) -> None:
        """Add a result in the format of `locate`."""
        self.places.append(place)
        kind = str(result.get("outcome", "ok"))
        busbw = result.get("busbw")
        if kind != "ok" or busbw is None:
            self.broken = NONE if kind == "ok" else kind
            return
        floor = result.get("floor")
        self.floor, self.scope = floor is not None, str(result.get("scope") or "")
        self.rounding = max(self.rounding, float(result.get("rounding") or 0.0))
        repeats = result.get("repeats") or [busbw]
        self.samples += [sequential_test.logarithm(float(each) / float(floor or 1.0)) for each in repeats]

    def outcome(self) -> Outcome:
        """Return the outcome for the search; an undecided test blames no node."""
        places = tuple(self.places)
        if self.broken or self.verdict is None:
            return Outcome(self.nodes, self.broken or NONE, places)
        kind = SLOW if self.verdict <= -sequential_test.BOUND and not self.coarse else PASSED
        if not self.needed and abs(self.verdict) < sequential_test.BOUND:
            kind = OPEN
        return Outcome(self.nodes, kind, places, self.sure, fmean(self.samples), self.error, self.margin)


class Readings:
    """All tests of a search so far, and their normal values."""

    def __init__(self, drop: float, most_repeats: int) -> None:
        """Create an empty collection of tests.

        Args:
            drop: smallest share below normal that counts as slow.
            most_repeats: maximum number of measurements of a test in one round.
        """
        self._drop = drop
        self._most = most_repeats
        self._noise = sequential_test.Noise()
        self._of_kind: dict[_Kind, list[Reading]] = {}
        self._known: dict[_Kind, tuple[float | None, bool]] = {}

    def _level(self) -> float:
        pairs = max((kind for kind in self._of_kind if kind[0] == _PAIR), key=self._count, default=None)
        return self._noise.level([] if pairs is None or self._noise.known else self._means(pairs))

    def _count(self, kind: _Kind) -> int:
        return len(self._of_kind[kind])

    def _means(self, kind: _Kind) -> list[float]:
        return [fmean(reading.samples) for reading in self._of_kind[kind]]

    def repeats(self) -> int:
        """Return the number of measurements of each test in a new round, derived from the noise so far."""
        if not self._noise.known:
            return min(self._most, sequential_test.FIRST_REPEATS)
        noise = self._level()
        return min(
            self._most, sequential_test.repeats_for(noise, sequential_test.smallest_drop(noise, self._drop, self._most))
        )

    def read(self, readings: Iterable[Reading]) -> None:
        """Judge tests against the current noise and normal values."""
        readings = [reading for reading in readings if reading.samples and not reading.broken]
        for reading in readings:
            if not reading.counted and reading.drawn:
                self._of_kind.setdefault(reading.kind, []).append(reading)
            self._noise.remove(reading.counted)
            self._noise.add(reading.samples)
            reading.counted = list(reading.samples)
        self._known = {}
        noise = self._level()
        distance = sequential_test.smallest_drop(noise, self._drop, self._most)
        for reading in readings:
            self._judge(reading, noise, distance)

    def _judge(self, reading: Reading, noise: float, distance: float) -> None:
        reference, own = self._normal(reading.kind, distance)
        at = sequential_test.limit(reference, distance, floor=reading.floor)
        reading.verdict = None if at is None else sequential_test.likelihood(reading.samples, at, noise, distance)
        reading.coarse = False
        up = log1p(reading.rounding)
        if at is not None and reading.verdict is not None and reading.verdict <= -sequential_test.BOUND:
            # Both the value and the reference were rounded: assume the smallest possible drop.
            best = at - up if reference is None else at - 2 * up
            reading.coarse = sequential_test.likelihood(reading.samples, best, noise, distance) > -sequential_test.BOUND
        under = (
            reading.floor
            and sequential_test.likelihood(reading.samples, -up, noise, distance) <= -sequential_test.BOUND
        )
        reading.sure = own or under
        reading.margin = 0.0 if at is None else at - fmean(reading.samples)
        reading.error = noise / sqrt(len(reading.samples))

    def _normal(self, kind: _Kind, distance: float) -> tuple[float | None, bool]:
        """Return the normal value for tests of a kind, and whether it comes from tests of about the same size."""
        if kind not in self._known:
            size, scope = kind
            sizes = {other[0] for other in self._of_kind if other[1] == scope}
            self._known[kind] = (None, False)
            for other in sorted(sizes, key=lambda each: (abs(log2(each / size)), each)):
                near = [each for each in sizes if max(each, other) <= _NEAR * min(each, other)]
                means = [mean for each in near for mean in self._means((each, scope))]
                found = sequential_test.normal(means, distance)
                if found is not None:
                    few = sequential_test.fastest(means, distance) if other > _PAIR + 1 else found
                    # More than half of these tests may be slow, such as those between few switches with bad uplinks.
                    most_slow = few - found > _CLEAR * distance
                    near_enough = max(size, other) <= _NEAR * min(size, other)
                    self._known[kind] = (few, False) if most_slow else (found, near_enough)
                    break
        return self._known[kind]

    def hidden(self) -> str:
        """Return a message about the losses that the noise hides; empty if the requested drop can be detected."""
        noise = self._level()
        smallest, wanted_drop = sequential_test.smallest_drop(noise, self._drop, self._most), -log1p(-self._drop)
        if not self._of_kind or smallest <= wanted_drop:
            return ""
        repeats = sequential_test.repeats_for(noise, wanted_drop)
        wanted = f"validate with {repeats} repeats" if repeats <= _MOST_TESTS else "validate when the cluster is idle"
        return f"a noise of {100 * noise:.0f} % hides losses below {100 * (1 - exp(-smallest)):.0f} %: {wanted}"

    def undecided(self, readings: Iterable[Reading]) -> list[Reading]:
        """Return the tests that need repeats."""
        return [
            reading
            for reading in readings
            if not reading.broken and reading.verdict is not None and abs(reading.verdict) < sequential_test.BOUND
        ]

    def suspected(self, reading: Reading) -> dict[str, Any]:
        """Return the entry of a test that is probably slow, although its drop is within noise or rounding error.

        The entry contains the number of repeats that would confirm the drop.
        """
        noise = self._level()
        distance = sequential_test.smallest_drop(noise, self._drop, self._most)
        reference = self._normal(reading.kind, distance)[0]
        mean = fmean(reading.samples)
        usual = reference if reference is not None else distance / 2
        seen = max(usual - mean, distance / _LEAST_SUSPECTED)
        repeats = min(_MOST_TESTS, max(len(reading.samples) + 1, sequential_test.repeats_for(noise, seen)))
        of_what = "the normal value for this number of nodes" if reference is not None else "the floor"
        if reading.coarse:
            return {
                "nodes": list(reading.nodes),
                "repeats": 0,
                "reason": (
                    f"busbw is {100 * exp(mean - (reference or 0.0)):.0f} % of {of_what}, with a rounding error of up "
                    f"to {100 * reading.rounding:.0f} %: suspected; lower {option('max_bytes')} until a message takes "
                    "less than 10 s, which prints more digits"
                ),
            }
        return {
            "nodes": list(reading.nodes),
            "repeats": repeats,
            "reason": (
                f"busbw is {100 * exp(mean - (reference or 0.0)):.0f} % of {of_what}, after {len(reading.samples)} "
                f"repeats with a noise of {100 * noise:.1f} %: suspected; validate with {repeats} repeats"
            ),
        }
