# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""The state of the search for slow links and boundaries: open items, untested pairs and recorded culprits.

A fast test of many nodes clears all pairs among them. Two simultaneous tests can cover half of the pairs of a set, so
each round halves the number of untested pairs until a test is slow.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from .search_data import Context, Outcome
    from .tournament import League

_WAYS = ((0, 0, 1, 1), (0, 1, 0, 1), (0, 1, 1, 0))


class Untested:
    """A graph of nodes whose edges are the untested pairs.

    The neighbours of a node are the bits of an integer: bit i stands for the node at position i.
    """

    def __init__(self, nodes: list[str]) -> None:
        """Start with all pairs untested.

        Args:
            nodes: names, ordered by switch.
        """
        self._nodes = nodes
        self._place = {node: i for i, node in enumerate(nodes)}
        everybody = (1 << len(nodes)) - 1
        self._partners = [everybody ^ (1 << i) for i in range(len(nodes))]

    def _bits(self, nodes: Iterable[str]) -> int:
        bits = 0
        for node in nodes:
            bits |= 1 << self._place[node]
        return bits

    def _names(self, bits: int) -> tuple[str, ...]:
        return tuple(self._nodes[place] for place in _places(bits))

    def clear(self, nodes: Iterable[str]) -> None:
        """Mark all pairs of a passed test as tested."""
        bits = self._bits(nodes)
        for place in _places(bits):
            self._partners[place] &= ~bits

    def holds(self, nodes: Iterable[str]) -> bool:
        """Return whether any pair of the nodes is untested."""
        bits = self._bits(nodes)
        return any(self._partners[place] & bits for place in _places(bits))

    def count(self, nodes: Iterable[str]) -> int:
        """Return the number of untested pairs among the nodes."""
        return self._count(self._bits(nodes)) // 2

    def components(self, nodes: Iterable[str]) -> list[tuple[str, ...]]:
        """Return the sets of nodes that untested pairs connect; nodes without an untested pair are left out."""
        left = self._bits(nodes)
        components = []
        while left:
            part = new = left & -left
            while new:
                near = 0
                for place in _places(new):
                    near |= self._partners[place]
                new = near & left & ~part
                part |= new
            left &= ~part
            if part & (part - 1):
                components.append(self._names(part))
        return components

    def sides(self, part: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
        """Return two sets that split every untested pair, or None if that is impossible."""
        whole = self._bits(part)
        sides = [1 << self._place[part[0]], 0]
        turn, new = 0, sides[0]
        while new:
            near = 0
            for place in _places(new):
                near |= self._partners[place]
            turn = 1 - turn
            new = near & whole & ~sides[turn]
            sides[turn] |= new
            if sides[0] & sides[1]:
                return None
        return self._names(sides[0]), self._names(sides[1])

    def groups(self, part: tuple[str, ...]) -> list[tuple[str, ...]]:
        """Return the two disjoint halves of a part, built from its quarters, that contain the most untested pairs."""
        cuts = [len(part) * i // 4 for i in range(5)]
        quarters = [self._bits(part[one:other]) for one, other in zip(cuts, cuts[1:])]
        ways = []
        for way in _WAYS:
            groups = [0, 0]
            for quarter, group in zip(quarters, way):
                groups[group] |= quarter
            ways.append(groups)
        best = max(ways, key=lambda groups: sum(map(self._count, groups)))
        return [self._names(group) for group in best if self._count(group)]

    def _count(self, bits: int) -> int:
        return sum(bin(self._partners[place] & bits).count("1") for place in _places(bits))


def _places(bits: int) -> Iterator[int]:
    """Return the positions of the set bits."""
    while bits:
        lowest = bits & -bits
        yield lowest.bit_length() - 1
        bits ^= lowest


UNSURE = "slower together than smaller groups; too few tests of this size to determine whether that is normal"
_PAIR = 2


@dataclass(frozen=True)
class Block:
    """All connections among the nodes of left or, if right is set, between left and right."""

    left: tuple[str, ...]
    right: tuple[str, ...] = ()

    @property
    def nodes(self) -> tuple[str, ...]:
        """The nodes that a test of the block needs."""
        return self.left + self.right

    @property
    def pair(self) -> bool:
        """Whether the block is a single connection."""
        return len(self.left) + len(self.right) == _PAIR

    def quarters(self, switch_of: dict[str, str]) -> tuple[list[Block], list[Block]]:
        """Return the two diagonal quarters, which have no node in common, and the other two."""
        one, two = _halves(self.left, switch_of)
        if not self.right:
            return [Block(half) for half in (one, two) if len(half) > 1], [Block(one, two)]
        three, four = _halves(self.right, switch_of)
        diagonal, others = ((one, three), (two, four)), ((one, four), (two, three))
        return [Block(*sides) for sides in diagonal if all(sides)], [Block(*sides) for sides in others if all(sides)]


def _halves(nodes: tuple[str, ...], switch_of: dict[str, str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return two halves, split between switches if there are several."""
    cuts = [i for i in range(1, len(nodes)) if switch_of[nodes[i - 1]] != switch_of[nodes[i]]]
    half = (len(nodes) + 1) // 2
    cut = min(cuts, key=lambda i: (abs(i - half), i), default=half)
    return nodes[:cut], nodes[cut:]


class Item:
    """A part of the search that is not finished: selects its next tests and interprets their outcomes."""

    blocks: list[Block]

    def ask(self, state: LinkState, taken: set[str]) -> list[Block]:
        """Return tests without common nodes; an empty list if none can run in this round."""
        raise NotImplementedError

    def learn(self, state: LinkState, blocks: list[Block], outcomes: list[Outcome]) -> list[Item]:
        """Return the items that replace this one."""
        raise NotImplementedError


@dataclass
class LinkState:
    """The open items and the culprits found so far.

    Attributes:
        context: the state of the search.
        league: the games of the nodes, the source of known-good partners.
        items: the open items.
        found: number of culprits found.
        split: whether the test of all nodes together has been split.
    """

    context: Context
    league: League
    items: list[Item] = field(default_factory=list)
    found: int = 0
    split: bool = False

    def __post_init__(self) -> None:
        """Start with all pairs untested."""
        self._passed: Counter[str] = Counter()
        self.forget()

    def covered(self, nodes: tuple[str, ...]) -> bool:
        """Return whether each pair of the nodes was part of a passed test."""
        self._take_in()
        return not self.untested.holds(nodes)

    def forget(self) -> None:
        """Mark all pairs as untested."""
        self.untested = Untested(self.context.nodes)
        self._seen = len(self.context.fine)

    def untested_blocks(self, nodes: tuple[str, ...]) -> list[Block]:
        """Return disjoint blocks that cover all untested pairs of the nodes."""
        return [Block(*(self.untested.sides(part) or (part,))) for part in self.untested.components(nodes)]

    def quarters(self, block: Block) -> tuple[list[Block], list[Block]]:
        """Return the diagonal quarters with more untested pairs, without fully tested ones, and the other two."""
        first, others = block.quarters(self.context.switch_of)
        if block.right and self._count(others) > self._count(first):
            first, others = others, first
        return [part for part in first if self.untested.holds(part.nodes)], others

    def _count(self, blocks: list[Block]) -> int:
        return sum(self.untested.count(block.nodes) for block in blocks)

    def _take_in(self) -> None:
        """Mark the pairs of passed tests as tested."""
        for nodes in self.context.fine[self._seen :]:
            self.untested.clear(nodes)
            self._passed.update(nodes)
        self._seen = len(self.context.fine)

    def hot(self) -> set[str]:
        """Return the nodes in slow blocks without a known cause."""
        return {node for item in self.items for block in item.blocks for node in block.nodes}

    def proven(self, node: str) -> bool:
        """Return whether the node took part in several tests of the search that passed."""
        return self._passed[node] >= _PAIR

    def partner(self, node: str, busy: set[str]) -> str | None:
        """Return a known-good partner for the node, from the same switch if possible."""
        switch_of = self.context.switch_of
        choice = [
            other
            for other in self.context.nodes
            if other not in busy and self.league.good(other) and self.context.clean((node, other))
        ]
        return min(choice, key=lambda other: switch_of[other] != switch_of[node], default=None)

    def blame(self, node: str, outcomes: list[Outcome]) -> None:
        """Record a faulty node, which explains all slow blocks that contain it."""
        self.league.lost[node] = outcomes
        self.context.out.add(node)
        self.found += 1
        self.items = [item for item in self.items if all(node not in block.nodes for block in item.blocks)]

    def name_link(self, block: Block, outcomes: list[Outcome]) -> None:
        """Record a slow link."""
        one, other = sorted(block.nodes)
        self.context.bad.append((frozenset({one}), frozenset({other})))
        if not self.context.differs(one, other, outcomes):
            self.suspect((one, other), "slow together, but not clearly slower than each node with other nodes")
            return
        self._conclude("links", {"nodes": [one, other]}, outcomes)

    def suspect_boundary(self, left: Sequence[str], right: Sequence[str]) -> None:
        """Suspect two sets that are slower together than smaller groups, if no reference exists for their size."""
        self.context.bad.append((frozenset(left), frozenset(right)))
        self.suspect({*left, *right}, UNSURE)

    def suspect(self, nodes: Collection[str], reason: str) -> None:
        """Record suspected nodes that the search cannot examine further."""
        named = [node for node in self.context.nodes if node in nodes]
        self.context.found["suspected"].append({"nodes": named, "repeats": 0, "reason": reason})
        self.found += 1

    def name_boundary(self, left: Sequence[str], right: Sequence[str], outcomes: list[Outcome]) -> None:
        """Record a slow boundary between two sets of nodes, named after the switches on its sides."""
        both = self._with_ends(left, right), self._with_ends(right, left)
        self.context.bad.append(both)
        sides = [sorted(side) for side in both]
        switches = [{self.context.switch_of[node] for node in side} for side in sides]
        apart = switches[0].isdisjoint(switches[1])
        names = sorted(name for side in switches if apart and len(side) == 1 for name in side)
        self._conclude("boundaries", {"switches": names, "sides": sides}, outcomes)

    def _with_ends(self, side: Sequence[str], other: Sequence[str]) -> frozenset[str]:
        """Return a side, plus nodes of its switches that tests left out because they are ends of known slow links."""
        switches = {self.context.switch_of[node] for node in side}
        ends = {node for sides in self.context.bad for part in sides if len(part) == 1 for node in part}
        rest = {node for node in self.context.innocent() if self.context.switch_of[node] in switches} - set(side)
        return frozenset({*side, *rest} if rest <= ends - set(other) else side)

    def _conclude(self, what: str, entry: dict[str, Any], outcomes: list[Outcome]) -> None:
        self.context.conclude(what, entry, outcomes)
        self.found += 1
