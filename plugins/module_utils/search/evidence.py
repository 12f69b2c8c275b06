# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""What the culprit search knows: results of tests, how they are read, and what has been concluded."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import product
from statistics import median
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable

__all__ = ["FAILED", "NONE", "OUTCOMES", "PASSED", "SLOW", "Context", "Outcome", "Question", "Steps"]

PASSED = "pass"
SLOW = "slow"
NONE = "inconclusive"
FAILED = frozenset({SLOW, "wrong"})
OUTCOMES = ("ok", "wrong", "crashed", "hung", NONE)

RELATIVE = 0.75
_PEERS = 5
_NOISE = 0.05
_LEAST_NOISE = 0.01
_PAIR = 2
_MOST_WEIGHED = 6
# A healthy test fails by chance once in 700 (3 sigma) or 40 (2 sigma): the nearer, the more failures are asked for.
_CLEAR, _NEAR = 3.0, 2.0
_MARGIN = 0.9
# Only tests of as many nodes with the same way between them, NVLink or network, are peers.
_Kind = tuple[int, str]


@dataclass(frozen=True)
class Question:
    """A round: tests without a common node, which may run at once.

    Attributes:
        stage: what the round is for: pairs, alone, confirm, whole, switches or search.
        tests: one tuple of node names per test.
    """

    stage: str
    tests: list[tuple[str, ...]]


@dataclass(frozen=True)
class Outcome:
    """What a test said.

    Attributes:
        nodes: the nodes that took part.
        kind: pass, slow, wrong, crashed, hung or inconclusive.
        result: position of the result among those given.
        score: busbw over floor, or busbw where there is no floor; None when nothing was measured.
        marginal: it failed by so little that it may be noise.
    """

    nodes: tuple[str, ...]
    kind: str
    result: int
    score: float | None = None
    marginal: bool = False

    @property
    def passed(self) -> bool:
        """Whether all that took part are fine together."""
        return self.kind == PASSED


if TYPE_CHECKING:
    Steps = Generator[Question, list[Outcome], None]
else:
    Steps = None


@dataclass
class Context:
    """The state of a search.

    Attributes:
        nodes: all nodes, those of one switch next to each other.
        switch_of: the switch of each node.
        relative: what share of its peers' median a test must reach.
        found: conclusions: nodes, links, boundaries, unresolved (lists of plain dicts).
        bad: pairs of nodes that are known to be slow together, though each is fine.
        fine: the nodes of each test that passed.
    """

    nodes: list[str]
    switch_of: dict[str, str]
    relative: float = RELATIVE
    peers: dict[_Kind, list[float]] = field(default_factory=dict)
    out: set[str] = field(default_factory=set)
    bad: list[tuple[frozenset[str], frozenset[str]]] = field(default_factory=list)
    fine: list[tuple[str, ...]] = field(default_factory=list)
    found: dict[str, list[dict[str, Any]]] = field(
        default_factory=lambda: {"nodes": [], "links": [], "boundaries": [], "unresolved": []}
    )

    def innocent(self) -> list[str]:
        """Return the nodes that nothing has been found against, in order."""
        return [node for node in self.nodes if node not in self.out]

    def clean(self, nodes: Iterable[str]) -> bool:
        """Return whether no known link or boundary lies among the nodes."""
        group = frozenset(nodes)
        return not any(left & group and right & group for left, right in self.bad)

    def wholes(self, nodes: Iterable[str]) -> list[tuple[str, ...]]:
        """Return the nodes less one side of each known link or boundary, in up to three ways.

        Less the one end of each link, less the other, and so that most nodes are left.
        """
        kept = list(nodes)
        ways = (self.without_bad(kept), self.without_bad(kept, other=True), self._without_fewest(kept))
        return list(dict.fromkeys(ways))

    def covered(self, nodes: tuple[str, ...]) -> bool:
        """Return whether a test with all of the nodes has passed."""
        group = frozenset(nodes)
        return any(len(fine) >= len(group) and group.issubset(fine) for fine in self.fine)

    def _without_fewest(self, nodes: list[str]) -> tuple[str, ...]:
        ways = (frozenset[str]().union(*sides) for sides in product(*self.bad[:_MOST_WEIGHED]))
        gone = min(ways, key=len)
        return self.without_bad(node for node in nodes if node not in gone)

    def without_bad(self, nodes: Iterable[str], *, other: bool = False) -> tuple[str, ...]:
        """Return the nodes less one side (the smaller, or of equals the one or the other) of what is slow together."""
        left_over = dict.fromkeys(nodes)
        for sides in self.bad:
            small, large = sorted(sides[::-1] if other else sides, key=len)
            if large & left_over.keys():
                for node in small:
                    left_over.pop(node, None)
        return tuple(left_over)

    def conclude(self, what: str, entry: dict[str, Any], outcomes: list[Outcome]) -> None:
        """Enter a conclusion with its verdict: FAIL when something was measured, INCONCLUSIVE after mere crashes."""
        kinds = {outcome.kind for outcome in outcomes if not outcome.passed}
        verdict = "FAIL" if kinds & FAILED else "INCONCLUSIVE"
        results = sorted({outcome.result for outcome in outcomes})
        self.found[what].append({**entry, "verdict": verdict, "kinds": sorted(kinds), "results": results})

    def _pairs(self) -> list[float]:
        """Return the scores of the pairs of that scope of which most are known."""
        return max((scores for (size, _), scores in self.peers.items() if size == _PAIR), key=len, default=[])

    def noise(self) -> float:
        """Return the spread of the pairs as a share of their median: 1.48 MAD, or 5 % while few are known."""
        scores = self._pairs()
        if len(scores) < _PEERS:
            return _NOISE
        middle = median(scores)
        return max(_LEAST_NOISE, 1.4826 * median(abs(score - middle) for score in scores) / middle)

    def needed(self) -> int:
        """Return with how many known-good partners a node must fail before it is blamed: two, more amid noise."""
        scores = self._pairs()
        if not scores:
            return 2
        middle = median(scores)
        distance = (1 - max(1 / middle, self.relative)) / self.noise()
        return 2 if distance >= _CLEAR or middle < 1 else 3 if distance >= _NEAR else 5

    def read(self, tests: list[tuple[str, ...]], results: list[dict[str, Any]], first: list[int]) -> list[Outcome]:
        """Return the outcomes of a round.

        Args:
            tests: the tests.
            results: one result per test, as locate takes them.
            first: position of each result among those given.
        """
        kinds: dict[_Kind, list[float]] = {}
        for test, result in zip(tests, results, strict=True):
            if result.get("outcome", "ok") == "ok" and result.get("busbw") is not None:
                kinds.setdefault(_kind(test, result), []).append(_score(result))
        for kind, scores in kinds.items():
            if kind not in self.peers and (len(scores) >= _PEERS or kind[0] == _PAIR):
                self.peers[kind] = scores
        outcomes = [self._read(*item) for item in zip(tests, results, first, strict=True)]
        self.fine += [outcome.nodes for outcome in outcomes if outcome.passed]
        return outcomes

    def _read(self, test: tuple[str, ...], result: dict[str, Any], index: int) -> Outcome:
        kind = result.get("outcome", "ok")
        busbw = result.get("busbw")
        if kind != "ok" or busbw is None:
            return Outcome(test, NONE if kind == "ok" else str(kind), index)
        score = _score(result)
        peers = self.peers.get(_kind(test, result), [])
        least = self.relative * median(peers) if len(peers) >= _PEERS else 0.0
        floor = result.get("floor")
        if floor is None and not least:
            return Outcome(test, NONE, index, score)
        least = max(least, 1.0 if floor is not None else 0.0)
        return Outcome(test, SLOW if score < least else PASSED, index, score, _MARGIN * least < score < least)


def _kind(test: tuple[str, ...], result: dict[str, Any]) -> _Kind:
    return len(test), str(result.get("scope") or "")


def _score(result: dict[str, Any]) -> float:
    """Return busbw over floor, so that kinds of hardware and sizes can be compared; busbw where there is no floor."""
    return float(result["busbw"]) / float(result.get("floor") or 1.0)
