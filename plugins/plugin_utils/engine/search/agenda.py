# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""Drives the search for slow links and boundaries: what is open, which tests the next round holds, what was found.

While what is slow is split, all other nodes are tested too: whatever else is wrong is found beside it, not after it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from math import inf
from typing import TYPE_CHECKING, Any

from .blocks import Block, Border, Duel, Family, Item, LinkOrBorder, Sweep, narrow
from .evidence import Question
from .untested import Untested

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from .evidence import Context, Outcome, Steps
    from .tournament import League

__all__ = ["UNSURE", "Agenda"]

UNSURE = "slower together than fewer nodes are, and too few tests of as many nodes to tell whether that is normal"
_PAIR = 2
_MOST_ROUNDS = 60
# In so many ways known links and boundaries are parted.
_WAYS = 3


@dataclass
class Agenda:
    """The blocks that are open, and the culprits that were found.

    Attributes:
        context: the state of the search.
        league: the games of the nodes, from which known-good partners come.
        items: what is open.
        found: how many culprits were found.
        split: whether all together have been split.
    """

    context: Context
    league: League
    items: list[Item] = field(default_factory=list)
    found: int = 0
    split: bool = False

    def __post_init__(self) -> None:
        """Begin with all pairs untested."""
        self._passed: Counter[str] = Counter()
        self.forget()

    def add(self, nodes: tuple[str, ...], outcome: Outcome) -> None:
        """Open the block of a test that failed."""
        self._take_in()
        self.items += narrow(self, Block(nodes), outcome)

    def duel(self, pair: tuple[str, str], outcomes: list[Outcome]) -> None:
        """Open a pair that was slow, though both nodes were fast with others."""
        self.items.append(Duel(Block(pair), [outcome for outcome in outcomes if not outcome.passed]))

    def between(self, left: tuple[str, ...], right: tuple[str, ...]) -> None:
        """Open the block between two sets that were slow together, though each is fine."""
        self.items.append(Family([Block(left, right)]))

    def covered(self, nodes: tuple[str, ...]) -> bool:
        """Return whether each pair of the nodes has been part of a test that passed."""
        self._take_in()
        return not self.untested.holds(nodes)

    def forget(self) -> None:
        """Take no pair for tested any more."""
        self.untested = Untested(self.context.nodes)
        self._seen = len(self.context.fine)

    def run(self, goal: float = 0, scopes: Sequence[Iterable[str]] = ()) -> Steps:
        """Ask for rounds until nothing is known to be slow that is not explained.

        Args:
            goal: go on until so many culprits are found or nothing is left to test.
            scopes: sets of nodes, without a common node, within which untested pairs are tested beside.
        """
        self._take_in()
        for turn in range(_MOST_ROUNDS):
            # What cannot be tested as it is, since a known culprit lies within, counts as untested again.
            self.items = [item for item in self.items if isinstance(item, (Border, Duel)) or self._clean(item)]
            self._close_borders()
            if not self.items and self.found >= goal:
                return
            plan = next((plan for way in range(_WAYS) if (plan := self._plan(scopes, turn + way, goal))), [])
            if not plan:
                break
            outcomes = yield self._question(plan)
            self._take_in()
            rest = iter(outcomes)
            for item, blocks in plan:
                told = [next(rest) for _ in blocks]
                if isinstance(item, Sweep) or any(item is other for other in self.items):
                    self.items = [other for other in self.items if other is not item]
                    # What is learned may take other items away, too.
                    follows = item.learn(self, blocks, told)
                    self.items += follows
        self._give_up()

    def _close_borders(self) -> None:
        """Conclude what no pair is left to ask about."""
        closed = [item for item in self.items if isinstance(item, Border) and not item.ask(self, set())]
        self.items = [item for item in self.items if not any(item is other for other in closed)]
        for item in closed:
            self.items += item.learn(self, [], [])

    def _question(self, plan: list[tuple[Item, list[Block]]]) -> Question:
        """Return a round; beside what is slow, nothing waits for a sweep that cannot be told from noise."""
        tests = [block.nodes for _item, blocks in plan for block in blocks]
        needed = sum(len(blocks) for item, blocks in plan if not isinstance(item, Sweep))
        return Question("search", tests, needed=needed or None)

    def _give_up(self) -> None:
        left = self.hot()
        if left:
            nodes = [node for node in self.context.nodes if node in left]
            self.context.found["unresolved"].append({"nodes": nodes, "reason": "slow together, but no cause was found"})
        self.items = []

    def _plan(self, scopes: Sequence[Iterable[str]], turn: int, goal: float) -> list[tuple[Item, list[Block]]]:
        """Return the tests of the next round, and for what they are."""
        taken: set[str] = set()
        plan = []
        for item in sorted(self.items, key=_size):
            blocks = item.ask(self, taken)
            nodes = {node for block in blocks for node in block.nodes}
            if blocks and not nodes & taken:
                taken |= nodes
                plan.append((item, blocks))
        busy = taken | self.hot() | self.context.out
        for scope in scopes:
            free = [node for node in scope if node not in busy]
            # A known link parts its ends, now the one and now the other.
            ways = self.context.wholes(free)
            idle = ways[turn % len(ways) if goal < inf else 0]
            # Without something slow to split, a scope that is likely to be fine is best tested as a whole.
            sweeps = self._sweeps(idle) if plan or goal < inf else self._whole(idle)
            plan += [(item, blocks) for item in sweeps if (blocks := item.ask(self, taken))]
        return plan

    def _whole(self, nodes: tuple[str, ...]) -> list[Item]:
        return [Sweep(Block(nodes))] if self.untested.holds(nodes) else []

    def _sweeps(self, nodes: tuple[str, ...]) -> list[Item]:
        """Return tests of about half of the untested pairs among the nodes."""
        sweeps: list[Item] = []
        for block in self.untested_blocks(nodes):
            blocks = [block] if block.right else [Block(group) for group in self.untested.groups(block.nodes)]
            sweeps += [Sweep(block) for block in blocks]
        return sweeps

    def untested_blocks(self, nodes: tuple[str, ...]) -> list[Block]:
        """Return blocks without a common node that hold all untested pairs of the nodes."""
        return [Block(*(self.untested.sides(part) or (part,))) for part in self.untested.parts(nodes)]

    def quarters(self, block: Block) -> tuple[list[Block], list[Block]]:
        """Return the diagonal quarters of a block that hold untested pairs, and the others; the fuller ones first."""
        first, others = block.quarters(self.context.switch_of)
        if block.right and self._count(others) > self._count(first):
            first, others = others, first
        return [part for part in first if self.untested.holds(part.nodes)], others

    def _count(self, blocks: list[Block]) -> int:
        return sum(self.untested.count(block.nodes) for block in blocks)

    def _take_in(self) -> None:
        """Take in what passed."""
        for nodes in self.context.fine[self._seen :]:
            self.untested.clear(nodes)
            self._passed.update(nodes)
        self._seen = len(self.context.fine)

    def _clean(self, item: Item) -> bool:
        return bool(item.blocks) and all(self.context.clean(block.nodes) for block in item.blocks)

    def hot(self) -> set[str]:
        """Return the nodes of what is known to be slow and not explained."""
        return {node for item in self.items for block in item.blocks for node in block.nodes}

    def proven(self, node: str) -> bool:
        """Return whether the node took part in several tests of the search that passed."""
        return self._passed[node] >= _PAIR

    def partner(self, node: str, busy: set[str]) -> str | None:
        """Return a known-good node for a game with the node, of the same switch when possible."""
        switch_of = self.context.switch_of
        choice = [
            other
            for other in self.context.nodes
            if other not in busy and self.league.good(other) and self.context.clean((node, other))
        ]
        return min(choice, key=lambda other: switch_of[other] != switch_of[node], default=None)

    def blame(self, node: str, outcomes: list[Outcome]) -> None:
        """Enter a guilty node; whatever was slow with it is explained."""
        self.league.lost[node] = outcomes
        self.context.out.add(node)
        self.found += 1
        self.items = [item for item in self.items if all(node not in block.nodes for block in item.blocks)]

    def link(self, block: Block, outcomes: list[Outcome]) -> None:
        """Enter a slow link, or find out whether it is a boundary between two switches."""
        one, other = sorted(block.nodes)
        mine, theirs = self._others_of(one), self._others_of(other)
        across = (mine and self._slow_with(other, mine)) or (theirs and self._slow_with(one, theirs))
        if self.context.switch_of[one] == self.context.switch_of[other] or not across:
            self.name_link(block, outcomes)
            return
        between = Block(tuple(mine or [one]), tuple(theirs or [other]))
        self.items.append(LinkOrBorder(between, [], pair=block, games=outcomes))

    def _others_of(self, node: str) -> list[str]:
        """Return the other innocent nodes of a node's switch."""
        switch_of = self.context.switch_of
        return [other for other in self.context.innocent() if other != node and switch_of[other] == switch_of[node]]

    def _slow_with(self, node: str, others: list[str]) -> bool:
        """Return whether the node was fast with none of the others."""
        return all(self.untested.holds((node, other)) for other in others)

    def name_link(self, block: Block, outcomes: list[Outcome]) -> None:
        """Enter a slow link."""
        one, other = sorted(block.nodes)
        self.context.bad.append((frozenset({one}), frozenset({other})))
        if not self.context.differs(one, other, outcomes):
            self.suspect((one, other), "slow together, but not clearly slower than each is with others")
            return
        self._conclude("links", {"nodes": [one, other]}, outcomes)

    def boundary(self, left: Sequence[str], right: Sequence[str], outcomes: list[Outcome]) -> None:
        """Enter a slow boundary between two sets of nodes, or find out whether it is one."""
        if any(outcome.guilty for outcome in outcomes):
            self.name_boundary(left, right, outcomes)
        else:
            self.items.append(Border(Block(tuple(left), tuple(right)), outcomes))

    def suspect_boundary(self, left: Sequence[str], right: Sequence[str]) -> None:
        """Enter two sets that are slower together than fewer nodes are, while nothing tells what is normal for both."""
        self.context.bad.append((frozenset(left), frozenset(right)))
        self.suspect({*left, *right}, UNSURE)

    def suspect(self, nodes: Collection[str], reason: str) -> None:
        """Enter nodes of which the search cannot tell more."""
        named = [node for node in self.context.nodes if node in nodes]
        self.context.found["suspected"].append({"nodes": named, "repeats": 0, "reason": reason})
        self.found += 1

    def name_boundary(self, left: Sequence[str], right: Sequence[str], outcomes: list[Outcome]) -> None:
        """Enter a slow boundary between two sets of nodes, named by the switches that it parts."""
        both = self._with_ends(left, right), self._with_ends(right, left)
        self.context.bad.append(both)
        sides = [sorted(side) for side in both]
        switches = [{self.context.switch_of[node] for node in side} for side in sides]
        apart = switches[0].isdisjoint(switches[1])
        names = sorted(name for side in switches if apart and len(side) == 1 for name in side)
        self._conclude("boundaries", {"switches": names, "sides": sides}, outcomes)

    def _with_ends(self, side: Sequence[str], other: Sequence[str]) -> frozenset[str]:
        """Return a side with the nodes of its switches that tests left out only since they are ends of known links."""
        switches = {self.context.switch_of[node] for node in side}
        ends = {node for sides in self.context.bad for part in sides if len(part) == 1 for node in part}
        rest = {node for node in self.context.innocent() if self.context.switch_of[node] in switches} - set(side)
        return frozenset({*side, *rest} if rest <= ends - set(other) else side)

    def _conclude(self, what: str, entry: dict[str, Any], outcomes: list[Outcome]) -> None:
        self.context.conclude(what, entry, outcomes)
        self.found += 1


def _size(item: Item) -> int:
    return sum(len(block.nodes) for block in item.blocks)
