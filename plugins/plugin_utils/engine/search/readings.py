# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""Reads the results of a round: which tests were fast, which were slow, and which have to be repeated to tell.

What is normal comes from tests of about as many nodes. Where there are too few of these, the nearest size that is known
tells what is suspicious; nobody is blamed for that alone.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import exp, log1p, log2, sqrt
from statistics import fmean
from typing import TYPE_CHECKING, Any

from . import decide
from .evidence import NONE, OPEN, PASSED, SLOW, Outcome

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["Reading", "Readings"]

_PAIR = 2
# Tests of so many nodes more or less are compared with each other.
_NEAR = 1.25
_CLEAR = 0.75
_MOST_ASKED = 100
_LEAST_SUSPECTED = 4

# Only tests of as many nodes with the same way between them, NVLink or network, are peers.
_Kind = tuple[int, str]


@dataclass
class Reading:
    """The results of one test so far.

    Attributes:
        nodes: that take part.
        places: positions of its results among those given.
        samples: logarithms of busbw over floor (of busbw in GB/s without a floor), one per repeat.
        floor: whether there is one.
        broken: what happened instead of a measurement; empty for nothing.
        verdict: more than 0 for fast, less for slow, 0 while that cannot be told; None without anything to compare.
        sure: as Outcome says.
        counted: the samples that the noise is known from.
        error: standard deviation of the mean of the samples.
        margin: as Outcome says.
        drawn: whether it was asked of all nodes alike, and not since something was slow there; only such are peers.
        rounding: by what share what was measured may be off, for it was printed in few digits.
        coarse: whether it would be slow but for that rounding, which no repeat makes smaller.
        needed: whether the search waits for it; what it does not wait for may stay open.
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
        """Number of nodes, and the way between them."""
        return len(self.nodes), self.scope

    @property
    def tends(self) -> bool:
        """Whether it says something though it may have to be repeated: slow for certain, or rather fast."""
        return bool(self.broken) or (self.verdict is not None and not -decide.BOUND < self.verdict <= 0)

    def take(self, result: dict[str, Any], place: int) -> None:
        """Take in a result as search.locate takes it."""
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
        self.samples += [decide.logarithm(float(each) / float(floor or 1.0)) for each in repeats]

    def outcome(self) -> Outcome:
        """Return what the search makes of it: what cannot be told from noise is nobody's guilt."""
        places = tuple(self.places)
        if self.broken or self.verdict is None:
            return Outcome(self.nodes, self.broken or NONE, places)
        kind = SLOW if self.verdict <= -decide.BOUND and not self.coarse else PASSED
        if not self.needed and abs(self.verdict) < decide.BOUND:
            kind = OPEN
        return Outcome(self.nodes, kind, places, self.sure, fmean(self.samples), self.error, self.margin)


class Readings:
    """All tests of a search so far, and what is normal among them."""

    def __init__(self, drop: float, most_repeats: int) -> None:
        """Begin.

        Args:
            drop: the smallest share by which a test is to be slower than normal to be called slow.
            most_repeats: how often a test is measured in one round at most.
        """
        self._drop = drop
        self._most = most_repeats
        self._noise = decide.Noise()
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
        """Return how often the tests of a new round are measured: as often as the noise so far asks for."""
        if not self._noise.known:
            return min(self._most, decide.FIRST_REPEATS)
        noise = self._level()
        return min(self._most, decide.repeats_for(noise, decide.smallest_drop(noise, self._drop, self._most)))

    def read(self, readings: Iterable[Reading]) -> None:
        """Judge tests by what is known now."""
        readings = [reading for reading in readings if reading.samples and not reading.broken]
        for reading in readings:
            if not reading.counted and reading.drawn:
                self._of_kind.setdefault(reading.kind, []).append(reading)
            self._noise.remove(reading.counted)
            self._noise.add(reading.samples)
            reading.counted = list(reading.samples)
        self._known = {}
        noise = self._level()
        distance = decide.smallest_drop(noise, self._drop, self._most)
        for reading in readings:
            self._judge(reading, noise, distance)

    def _judge(self, reading: Reading, noise: float, distance: float) -> None:
        reference, own = self._normal(reading.kind, distance)
        at = decide.limit(reference, distance, floor=reading.floor)
        reading.verdict = None if at is None else decide.likelihood(reading.samples, at, noise, distance)
        reading.coarse = False
        up = log1p(reading.rounding)
        if at is not None and reading.verdict is not None and reading.verdict <= -decide.BOUND:
            # At its best, what was printed may stand for less of a drop; what is normal was rounded as well.
            best = at - up if reference is None else at - 2 * up
            reading.coarse = decide.likelihood(reading.samples, best, noise, distance) > -decide.BOUND
        under = reading.floor and decide.likelihood(reading.samples, -up, noise, distance) <= -decide.BOUND
        reading.sure = own or under
        reading.margin = 0.0 if at is None else at - fmean(reading.samples)
        reading.error = noise / sqrt(len(reading.samples))

    def _normal(self, kind: _Kind, distance: float) -> tuple[float | None, bool]:
        """Return what is normal for tests of a kind, and whether tests of about this size say so."""
        if kind not in self._known:
            size, scope = kind
            sizes = {other[0] for other in self._of_kind if other[1] == scope}
            self._known[kind] = (None, False)
            for other in sorted(sizes, key=lambda each: (abs(log2(each / size)), each)):
                near = [each for each in sizes if max(each, other) <= _NEAR * min(each, other)]
                means = [mean for each in near for mean in self._means((each, scope))]
                found = decide.normal(means, distance)
                if found is not None:
                    few = decide.fastest(means, distance) if other > _PAIR + 1 else found
                    # Of large tests most may be slow, as those between few switches with several bad uplinks are.
                    most_slow = few - found > _CLEAR * distance
                    near_enough = max(size, other) <= _NEAR * min(size, other)
                    self._known[kind] = (few, False) if most_slow else (found, near_enough)
                    break
        return self._known[kind]

    def hidden(self) -> str:
        """Return what the noise hides of the drop that is looked for; nothing where the repeats tell that drop."""
        noise = self._level()
        smallest, wanted_drop = decide.smallest_drop(noise, self._drop, self._most), -log1p(-self._drop)
        if not self._of_kind or smallest <= wanted_drop:
            return ""
        repeats = decide.repeats_for(noise, wanted_drop)
        wanted = f"repeat with {repeats} repeats" if repeats <= _MOST_ASKED else "measure when less disturbs it"
        return f"a noise of {100 * noise:.0f} % hides losses of less than {100 * (1 - exp(-smallest)):.0f} %: {wanted}"

    def undecided(self, readings: Iterable[Reading]) -> list[Reading]:
        """Return the tests that have to be repeated."""
        return [
            reading
            for reading in readings
            if not reading.broken and reading.verdict is not None and abs(reading.verdict) < decide.BOUND
        ]

    def suspected(self, reading: Reading) -> dict[str, Any]:
        """Return what is said of a test that is rather slow than fast, but within the noise or the rounding.

        The number of repeats is that which would tell the drop that was seen.
        """
        noise = self._level()
        distance = decide.smallest_drop(noise, self._drop, self._most)
        reference = self._normal(reading.kind, distance)[0]
        mean = fmean(reading.samples)
        usual = reference if reference is not None else distance / 2
        seen = max(usual - mean, distance / _LEAST_SUSPECTED)
        repeats = min(_MOST_ASKED, max(len(reading.samples) + 1, decide.repeats_for(noise, seen)))
        of_what = "what is normal for as many nodes" if reference is not None else "the floor"
        if reading.coarse:
            return {
                "nodes": list(reading.nodes),
                "repeats": 0,
                "reason": (
                    f"{100 * exp(mean - (reference or 0.0)):.0f} % of {of_what}, but printed in so few digits that it "
                    f"may be off by {100 * reading.rounding:.0f} %: suspected, measure with a validation_max_bytes "
                    "that takes less than 10 s"
                ),
            }
        return {
            "nodes": list(reading.nodes),
            "repeats": repeats,
            "reason": (
                f"{100 * exp(mean - (reference or 0.0)):.0f} % of {of_what}, after {len(reading.samples)} repeats with "
                f"a noise of {100 * noise:.1f} %: suspected, repeat with {repeats} repeats"
            ),
        }
