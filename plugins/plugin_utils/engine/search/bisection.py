# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""Find slow links and boundaries between healthy nodes by splitting failed tests.

A block is a set of connections: all those within one set of nodes, or all those between two sets. A failed block is
split into quarters. The two diagonal quarters have no node in common and are tested at the same time. If both pass, the
fault is in the other two, which are split without being tested first. Each round halves the number of suspected
connections, so one slow link among N nodes is found after about log2 N rounds. Connections that other tests cleared are
skipped.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from .link_search_state import Block, Item
from .search_data import OPEN

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .link_search_state import LinkState
    from .search_data import Outcome

_PAIR = 2
_SAMPLES = 4
_PAIRS_ACROSS = 8


@dataclass
class _OneBlock(Item):
    """A search item with a single block."""

    block: Block

    def __post_init__(self) -> None:
        """Create the item with its only block."""
        self.blocks = [self.block]


@dataclass
class Sweep(_OneBlock):
    """An untested block: a set of nodes is tested as a whole, two sets by their diagonal quarters."""

    others: list[Block] = field(default_factory=list)

    def ask(self, state: LinkState, taken: set[str]) -> list[Block]:
        """Return the block, or the pair of diagonal quarters with more untested pairs."""
        del taken
        if not self.block.right:
            return [self.block]
        first, self.others = state.quarters(self.block)
        return first

    def learn(self, state: LinkState, blocks: list[Block], outcomes: list[Outcome]) -> list[Item]:
        """Split failed blocks; undecided blocks count as untested."""
        results = zip(blocks, outcomes)
        hits = [(part, outcome) for part, outcome in results if not outcome.passed and outcome.kind != OPEN]
        if len(hits) == len(self.others) == _PAIR:
            return [_Probe(self.block, hits, self.others)]
        return _narrowed(state, hits)


@dataclass
class Family(Item):
    """Disjoint blocks that were slow when tested together, so at least one of them is slow."""

    blocks: list[Block]
    seen: Outcome | None = None
    others: list[Block] = field(default_factory=list)

    def ask(self, state: LinkState, taken: set[str]) -> list[Block]:
        """Return the diagonal quarters that no passed test covers."""
        del taken
        while self.blocks:
            quarters = [state.quarters(block) for block in self.blocks]
            first, self.others = ([part for pair in quarters for part in pair[side]] for side in (0, 1))
            if first:
                return first
            self.blocks = self.others
        return []

    def learn(self, state: LinkState, blocks: list[Block], outcomes: list[Outcome]) -> list[Item]:
        """Continue with the slow quarters, or with the untested ones if none is slow."""
        hits = [(part, outcome) for part, outcome in zip(blocks, outcomes) if not outcome.passed]
        if not hits:
            return [Family(self.others, self.seen)] if self.others else []
        if len(self.blocks) == 1 and len(hits) == len(self.others) == _PAIR:
            return [_Probe(self.blocks[0], hits, self.others, self.seen)]
        return _narrowed(state, hits, self.seen)


@dataclass
class _Probe(_OneBlock):
    """A block between two node sets in which every diagonal quarter is slow: a boundary or several slow links."""

    hits: list[tuple[Block, Outcome]]
    others: list[Block]
    seen: Outcome | None = None
    sampled: bool = False

    def ask(self, state: LinkState, taken: set[str]) -> list[Block]:
        del state, taken
        return self.samples() if self.sampled else self.others

    def samples(self) -> list[Block]:
        """Return blocks between smaller parts of the two sides."""
        count = min(_SAMPLES, len(self.block.left), len(self.block.right))
        lefts, rights = ([side[i::count] for i in range(count)] for side in (self.block.left, self.block.right))
        return [Block(left, rights[(i + 1) % count]) for i, left in enumerate(lefts)]

    def learn(self, state: LinkState, blocks: list[Block], outcomes: list[Outcome]) -> list[Item]:
        slow = [(part, outcome) for part, outcome in zip(blocks, outcomes) if not outcome.passed]
        if not self.sampled:
            self.hits += slow
            if len(slow) < len(blocks):
                return _narrowed(state, self.hits, self.seen)
            self.sampled = True
            return [self]
        if len(slow) < len(blocks):
            return _narrowed(state, self.hits, self.seen)
        boundary(state, self.block.left, self.block.right, [outcome for _part, outcome in self.hits + slow])
        return []


@dataclass
class Border(_OneBlock):
    """Two sets that are slower together than smaller groups: tests whether pairs between them are also slow.

    The normal bandwidth of pairs is known. If the pairs are fast, the large test may be slow only because of its size.
    """

    slow: list[Outcome]

    def ask(self, state: LinkState, taken: set[str]) -> list[Block]:
        """Return some pairs across the boundary without a known slow link."""
        lefts, rights = ([node for node in side if node not in taken] for side in (self.block.left, self.block.right))
        count = min(_PAIRS_ACROSS, len(lefts), len(rights))
        lefts, rights = ([side[len(side) * i // count] for i in range(count)] for side in (lefts, rights))
        pairs = zip(lefts, rights)
        return [Block((one,), (other,)) for one, other in pairs if state.context.clean((one, other))]

    def learn(self, state: LinkState, blocks: list[Block], outcomes: list[Outcome]) -> list[Item]:
        """Report the boundary if most pairs across it are slow."""
        del blocks
        slow = [outcome for outcome in outcomes if outcome.guilty]
        if 2 * len(slow) > len(outcomes):
            state.name_boundary(self.block.left, self.block.right, self.slow + slow)
        else:
            self.part(state)
        return []

    def part(self, state: LinkState) -> None:
        """Record the boundary only as suspected, because most pairs across it are fast."""
        state.suspect_boundary(self.block.left, self.block.right)


@dataclass
class LinkOrBorder(Border):
    """A slow pair on two switches, where neither node was fast with a node of the other switch: a link or a boundary.

    Attributes:
        pair: the slow pair; `slow` contains the results of its tests.
    """

    pair: Block = field(default_factory=lambda: Block(()))

    def ask(self, state: LinkState, taken: set[str]) -> list[Block]:
        """Return some pairs across the boundary that are not known to be slow, once all their nodes are free."""
        slow = {frozenset(item.pair.nodes) for item in state.items if isinstance(item, LinkOrBorder)}
        pairs = [block for block in super().ask(state, set()) if frozenset(block.nodes) not in slow]
        return [] if any(node in taken for block in pairs for node in block.nodes) else pairs

    def part(self, state: LinkState) -> None:
        """Report the link."""
        state.name_link(self.pair, self.slow)


@dataclass
class Duel(_OneBlock):
    """A slow pair: determines whether one of its nodes or the link between them is faulty."""

    slow: list[Outcome]
    fast: int = 0
    games: dict[str, list[tuple[str, Outcome]]] = field(default_factory=dict)
    meeting: dict[str, str] = field(default_factory=dict)

    def cleared(self, node: str, state: LinkState) -> bool:
        """Return whether the node was fast with other nodes: once in this item, or twice in the search."""
        return any(outcome.passed for _partner, outcome in self.games.get(node, [])) or state.proven(node)

    def ask(self, state: LinkState, taken: set[str]) -> list[Block]:
        """Return a test with a known-good partner for each node that is not cleared.

        Without such a partner, the pair is tested again.
        """
        self.meeting = {}
        open_nodes = [node for node in self.block.nodes if not self.cleared(node, state)]
        for node in open_nodes:
            partner = state.partner(node, taken | self._met(node) | set(self.meeting.values()))
            if partner is not None:
                self.meeting[node] = partner
        if self.meeting:
            return [Block((node, partner)) for node, partner in self.meeting.items()]
        waiting = any(state.partner(node, self._met(node)) is not None for node in open_nodes)
        return [] if waiting else [self.block]

    def _met(self, node: str) -> set[str]:
        return {partner for partner, _outcome in self.games.get(node, [])} | set(self.block.nodes)

    def learn(self, state: LinkState, blocks: list[Block], outcomes: list[Outcome]) -> list[Item]:
        """Blame a node that failed the required number of tests, or the link if the pair is slow again."""
        del blocks
        if not self.meeting:
            return self._again(state, outcomes[0])
        for (node, partner), outcome in zip(self.meeting.items(), outcomes):
            self.games.setdefault(node, []).append((partner, outcome))
        guilty = [
            node
            for node in self.block.nodes
            if not self.cleared(node, state) and len(self.games.get(node, [])) >= state.league.needed
        ]
        for node in guilty:
            state.blame(node, [outcome for _partner, outcome in self.games[node]])
        return [] if guilty or self.settled(state) else [self]

    def settled(self, state: LinkState) -> bool:
        """Report the link if both nodes are cleared and the pair was slow twice; return whether it was reported."""
        if len(self.slow) - self.fast < _PAIR or not all(self.cleared(node, state) for node in self.block.nodes):
            return False
        _link(state, self.block, self.slow)
        return True

    def _again(self, state: LinkState, outcome: Outcome) -> list[Item]:
        if outcome.passed:
            self.fast += 1
        else:
            self.slow.append(outcome)
        if len(self.slow) - self.fast >= _PAIR:
            _link(state, self.block, self.slow)
            return []
        return [] if self.fast and self.fast >= len(self.slow) else [self]


def narrow(state: LinkState, block: Block, outcome: Outcome, seen: Outcome | None = None) -> list[Item]:
    """Return the items to examine after a slow block, without connections that passed tests have covered.

    Args:
        state: state of the search.
        block: the slow block.
        outcome: outcome of the block's test.
        seen: outcome of an earlier, also slow, test of a larger block that contains it.
    """
    if block.pair:
        duel = Duel(block, [outcome] if seen is None else [seen, outcome])
        return [] if duel.settled(state) else [duel]
    return [Family([block] if block.right else state.untested_blocks(block.nodes) or [block], outcome)]


def _narrowed(state: LinkState, hits: list[tuple[Block, Outcome]], seen: Outcome | None = None) -> list[Item]:
    return [item for part, outcome in hits for item in narrow(state, part, outcome, seen)]


def _link(state: LinkState, block: Block, outcomes: list[Outcome]) -> None:
    """Record a slow link, or add an item that tests for a boundary between two switches."""
    one, other = sorted(block.nodes)
    mine, theirs = _others_of(state, one), _others_of(state, other)
    across = (mine and _slow_with(state, other, mine)) or (theirs and _slow_with(state, one, theirs))
    if state.context.switch_of[one] == state.context.switch_of[other] or not across:
        state.name_link(block, outcomes)
        return
    between = Block(tuple(mine or [one]), tuple(theirs or [other]))
    state.items.append(LinkOrBorder(between, outcomes, pair=block))


def _others_of(state: LinkState, node: str) -> list[str]:
    """Return the other nodes on the node's switch that are not known to be faulty."""
    switch_of = state.context.switch_of
    return [other for other in state.context.innocent() if other != node and switch_of[other] == switch_of[node]]


def _slow_with(state: LinkState, node: str, others: list[str]) -> bool:
    """Return whether the node was never fast with any of the given nodes."""
    return all(state.untested.holds((node, other)) for other in others)


def boundary(state: LinkState, left: Sequence[str], right: Sequence[str], outcomes: list[Outcome]) -> None:
    """Record a slow boundary between two sets of nodes, or open an item that tests for one."""
    if any(outcome.guilty for outcome in outcomes):
        state.name_boundary(left, right, outcomes)
    else:
        state.items.append(Border(Block(tuple(left), tuple(right)), outcomes))
