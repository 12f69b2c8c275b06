# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""Track the pairs of nodes that no passed test has covered, and choose tests that cover many of them.

A fast test of many nodes clears all pairs among them. Two simultaneous tests can cover half of the pairs of a set, so
each round halves the number of untested pairs until a test is slow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

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
