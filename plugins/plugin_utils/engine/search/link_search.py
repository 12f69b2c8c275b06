# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""Run the search for slow links and boundaries: choose the tests of each round and record the culprits.

While slow blocks are split, the other nodes are tested in the same rounds, so that more faults are found in parallel.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from math import inf
from typing import TYPE_CHECKING

from .bisection import Border, Duel, Family, Sweep, narrow
from .link_search_state import Block, LinkState
from .search_data import Question

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from .link_search_state import Item
    from .search_data import Outcome, Steps

_MOST_ROUNDS = 60
# Number of variants in which the ends of known links are left out.
_WAYS = 3


@dataclass
class LinkSearch(LinkState):
    """The rounds of the search."""

    def add(self, nodes: tuple[str, ...], outcome: Outcome) -> None:
        """Add the items to examine after a failed test of nodes."""
        self._take_in()
        self.items += narrow(self, Block(nodes), outcome)

    def duel(self, pair: tuple[str, str], outcomes: list[Outcome]) -> None:
        """Add an item for a slow pair whose nodes were both fast with others."""
        self.items.append(Duel(Block(pair), [outcome for outcome in outcomes if not outcome.passed]))

    def between(self, left: tuple[str, ...], right: tuple[str, ...]) -> None:
        """Add an item for two sets that are fast separately but slow together."""
        self.items.append(Family([Block(left, right)]))

    def run(self, goal: float = 0, scopes: Sequence[Iterable[str]] = ()) -> Steps:
        """Yield rounds of tests until every slow result is explained.

        Args:
            goal: number of culprits at which the search stops; it also stops if nothing is left to test.
            scopes: disjoint sets of nodes whose untested pairs are tested in parallel.
        """
        self._take_in()
        for turn in range(_MOST_ROUNDS):
            # Items with a known culprit cannot be tested; their connections count as untested again.
            self.items = [item for item in self.items if isinstance(item, (Border, Duel)) or self._clean(item)]
            self._close_borders()
            if not self.items and self.found >= goal:
                return
            plan = next((plan for way in range(_WAYS) if (plan := self._plan(scopes, turn + way, goal))), [])
            if not plan:
                break
            outcomes = yield self._question(plan)
            self._take_in()
            asked = sum(len(blocks) for _, blocks in plan)
            if len(outcomes) != asked:
                message = f"the search got {len(outcomes)} outcomes for {asked} tests"
                raise ValueError(message)
            rest = iter(outcomes)
            for item, blocks in plan:
                results = list(islice(rest, len(blocks)))
                if isinstance(item, Sweep) or any(item is other for other in self.items):
                    self.items = [other for other in self.items if other is not item]
                    # The outcome of one item may remove others.
                    follows = item.learn(self, blocks, results)
                    self.items += follows
        self._give_up()

    def _close_borders(self) -> None:
        """Finish boundary items without a remaining pair to test."""
        closed = [item for item in self.items if isinstance(item, Border) and not item.ask(self, set())]
        self.items = [item for item in self.items if not any(item is other for other in closed)]
        for item in closed:
            self.items += item.learn(self, [], [])

    def _question(self, plan: list[tuple[Item, list[Block]]]) -> Question:
        """Return a round that repeats undecided tests only for slow items, not for sweeps."""
        tests = [block.nodes for _item, blocks in plan for block in blocks]
        needed = sum(len(blocks) for item, blocks in plan if not isinstance(item, Sweep))
        return Question("search", tests, needed=needed or None)

    def _give_up(self) -> None:
        left = self.hot()
        if left:
            nodes = [node for node in self.context.nodes if node in left]
            self.context.found["unresolved"].append({"nodes": nodes, "reason": "slow together, cause not found"})
        self.items = []

    def _plan(self, scopes: Sequence[Iterable[str]], turn: int, goal: float) -> list[tuple[Item, list[Block]]]:
        """Return the tests of the next round, each with the item it belongs to."""
        taken: set[str] = set()
        plan = []
        for item in sorted(self.items, key=lambda item: sum(len(block.nodes) for block in item.blocks)):
            blocks = item.ask(self, taken)
            nodes = {node for block in blocks for node in block.nodes}
            if blocks and not nodes & taken:
                taken |= nodes
                plan.append((item, blocks))
        busy = taken | self.hot() | self.context.out
        for scope in scopes:
            free = [node for node in scope if node not in busy]
            # The ends of a known slow link cannot run together; each round leaves out a different end.
            ways = self.context.wholes(free)
            idle = ways[turn % len(ways) if goal < inf else 0]
            # Without an open slow block, a scope is probably healthy and is tested as a whole.
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

    def _clean(self, item: Item) -> bool:
        return bool(item.blocks) and all(self.context.clean(block.nodes) for block in item.blocks)
