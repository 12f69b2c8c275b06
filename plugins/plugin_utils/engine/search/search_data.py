# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""The data of the culprit search: test results, their interpretation, and the conclusions."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, field
from itertools import product
from math import inf, sqrt
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

PASSED = "pass"
SLOW = "slow"
NONE = "inconclusive"
OPEN = "open"
FAILED = frozenset({SLOW, "wrong"})
OUTCOMES = ("ok", "wrong", "crashed", "hung", NONE)

_MOST_WEIGHED = 6
_PAIR = 2
# Minimum difference between two means: as a logarithm (half of the smallest detectable drop), and in standard
# deviations.
_LEAST_GAP = 0.05
_CLEAR = 2.5


@dataclass(frozen=True)
class Question:
    """A round of tests without common nodes, which can run at the same time.

    Attributes:
        stage: purpose of the round: pairs, alone, confirm, whole, switches or search.
        tests: one tuple of node names per test.
        repeats: number of measurements of each test.
        needed: number of tests, counted from the first, that determine how the search continues; None for all. The
            other tests are not repeated if they are undecided.
    """

    stage: str
    tests: list[tuple[str, ...]]
    repeats: int = 1
    needed: int | None = None


@dataclass(frozen=True)
class Outcome:
    """The interpretation of a test.

    Attributes:
        nodes: the nodes that took part.
        kind: pass, slow, wrong, crashed, hung or inconclusive; open for an undecided test that was not repeated.
        results: positions of its results in the given list.
        sure: whether it is below its floor or slower than tests of the same size, not only slower than smaller tests.
        mean: logarithm of the measured value; None without a measurement.
        error: standard deviation of the mean.
        margin: distance of the mean below the limit, as a logarithm; infinite without a measurement.
    """

    nodes: tuple[str, ...]
    kind: str
    results: tuple[int, ...]
    sure: bool = True
    mean: float | None = None
    error: float = 0.0
    margin: float = inf

    @property
    def passed(self) -> bool:
        """Whether the test passed, which clears all its nodes and the links between them."""
        return self.kind == PASSED

    @property
    def guilty(self) -> bool:
        """Whether the outcome counts as evidence against its nodes."""
        return not self.passed and (self.kind != SLOW or self.sure)


Steps = Generator[Question, "list[Outcome]", None]


@dataclass
class Context:
    """The state of a search.

    Attributes:
        nodes: all nodes, ordered by switch.
        switch_of: the switch of each node.
        found: conclusions: nodes, links, boundaries, unresolved, suspected (lists of plain dicts).
        bad: pairs of nodes that are slow together although each node is fine.
        fine: the nodes of each passed test.
        small: measured tests of two or three nodes, by node.
    """

    nodes: list[str]
    switch_of: dict[str, str]
    out: set[str] = field(default_factory=set)
    bad: list[tuple[frozenset[str], frozenset[str]]] = field(default_factory=list)
    fine: list[tuple[str, ...]] = field(default_factory=list)
    small: dict[str, list[Outcome]] = field(default_factory=dict)
    found: dict[str, list[dict[str, Any]]] = field(
        default_factory=lambda: {"nodes": [], "links": [], "boundaries": [], "unresolved": [], "suspected": []}
    )

    def innocent(self) -> list[str]:
        """Return the nodes that are not blamed, in order."""
        return [node for node in self.nodes if node not in self.out]

    def clean(self, nodes: Iterable[str]) -> bool:
        """Return whether the nodes contain no known slow link or boundary."""
        group = frozenset(nodes)
        return not any(left & group and right & group for left, right in self.bad)

    def wholes(self, nodes: Iterable[str]) -> list[tuple[str, ...]]:
        """Return up to three variants of the nodes, each without one side of each known slow link or boundary.

        The variants leave out the first end of each link, the second end, or the end that keeps the most nodes.
        """
        kept = list(nodes)
        ways = (self.without_bad(kept), self.without_bad(kept, other=True), self._without_fewest(kept))
        return list(dict.fromkeys(ways))

    def covered(self, nodes: tuple[str, ...]) -> bool:
        """Return whether a passed test contained all of the nodes."""
        group = frozenset(nodes)
        return any(len(fine) >= len(group) and group.issubset(fine) for fine in self.fine)

    def _without_fewest(self, nodes: list[str]) -> tuple[str, ...]:
        ways = (frozenset[str]().union(*sides) for sides in product(*self.bad[:_MOST_WEIGHED]))
        gone = min(ways, key=len)
        return self.without_bad(node for node in nodes if node not in gone)

    def without_bad(self, nodes: Iterable[str], *, other: bool = False) -> tuple[str, ...]:
        """Return the nodes without the smaller side of each known slow link or boundary."""
        left_over = dict.fromkeys(nodes)
        for sides in self.bad:
            small, large = sorted(sides[::-1] if other else sides, key=len)
            if large & left_over.keys():
                for node in small:
                    left_over.pop(node, None)
        return tuple(left_over)

    def take(self, outcomes: list[Outcome]) -> None:
        """Record the outcomes of a round."""
        self.fine += [outcome.nodes for outcome in outcomes if outcome.passed]
        for outcome in outcomes:
            if outcome.mean is not None and _PAIR <= len(outcome.nodes) <= _PAIR + 1:
                for node in outcome.nodes:
                    self.small.setdefault(node, []).append(outcome)

    def differs(self, one: str, other: str, outcomes: list[Outcome]) -> bool:
        """Return whether two nodes are slower together than with other nodes, by half of the drop and above the noise.

        Otherwise one of them may be slightly slow with every partner, and the link is not at fault. The result is True
        for nodes without measured tests of two or three nodes.
        """
        mine = [outcome for outcome in outcomes if outcome.mean is not None and set(outcome.nodes) == {one, other}]
        for node, partner in ((one, other), (other, one)):
            rest = [outcome for outcome in self.small.get(node, []) if partner not in outcome.nodes]
            if mine and rest and _gap(rest, mine) < _LEAST_GAP:
                return False
        return True

    def conclude(self, what: str, entry: dict[str, Any], outcomes: list[Outcome]) -> None:
        """Record a conclusion with its verdict: INCONCLUSIVE if there were only crashes, otherwise FAIL."""
        kinds = {outcome.kind for outcome in outcomes if not outcome.passed}
        verdict = "FAIL" if kinds & FAILED else "INCONCLUSIVE"
        results = sorted({place for outcome in outcomes for place in outcome.results})
        self.found[what].append({**entry, "verdict": verdict, "kinds": sorted(kinds), "results": results})


def _gap(fast: list[Outcome], slow: list[Outcome]) -> float:
    """Return the difference between fast and slow tests, minus its uncertainty, as a logarithm."""
    (high, one), (low, other) = _pooled(fast), _pooled(slow)
    return min(high - low, (high - low) / max(1e-9, _CLEAR * sqrt(one**2 + other**2)) * _LEAST_GAP)


def _pooled(outcomes: list[Outcome]) -> tuple[float, float]:
    """Return the mean of several tests, weighted by their precision, and the standard deviation of the mean."""
    weights = [1 / max(outcome.error, 1e-6) ** 2 for outcome in outcomes]
    mean = sum(weight * (outcome.mean or 0.0) for weight, outcome in zip(weights, outcomes)) / sum(weights)
    return mean, 1 / sqrt(sum(weights))
