# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""Finds slow links and boundaries between nodes that are fine by themselves, by splitting tests that failed.

A block is a set of connections: all those among some nodes, or all those between two sets of nodes. A block that
failed is split into quarters, of which the two diagonal ones have no common node and run at once. When both pass,
the fault is in the two others, which are not tested but split at once: so every round halves the surroundings of the
fault, and one slow link among N nodes takes about log2 N rounds, whatever its ends. What is known to be fine from other
tests is passed over.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from .evidence import OPEN

if TYPE_CHECKING:
    from .agenda import Agenda
    from .evidence import Outcome

__all__ = ["Block", "Border", "Duel", "Family", "Item", "LinkOrBorder", "Sweep", "narrow"]

_PAIR = 2
_SAMPLES = 4
_PAIRS_ACROSS = 8


@dataclass(frozen=True)
class Block:
    """All connections among the nodes of left, or, with right, all those between left and right."""

    left: tuple[str, ...]
    right: tuple[str, ...] = ()

    @property
    def nodes(self) -> tuple[str, ...]:
        """The nodes that a test of it takes."""
        return self.left + self.right

    @property
    def pair(self) -> bool:
        """Whether it is one connection."""
        return len(self.left) + len(self.right) == _PAIR

    def quarters(self, switch_of: dict[str, str]) -> tuple[list[Block], list[Block]]:
        """Return the diagonal quarters, which have no common node, and the others."""
        one, two = _halves(self.left, switch_of)
        if not self.right:
            return [Block(half) for half in (one, two) if len(half) > 1], [Block(one, two)]
        three, four = _halves(self.right, switch_of)
        diagonal, others = ((one, three), (two, four)), ((one, four), (two, three))
        return [Block(*sides) for sides in diagonal if all(sides)], [Block(*sides) for sides in others if all(sides)]


def _halves(nodes: tuple[str, ...], switch_of: dict[str, str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return two halves, cut between two switches where there are several."""
    cuts = [i for i in range(1, len(nodes)) if switch_of[nodes[i - 1]] != switch_of[nodes[i]]]
    half = (len(nodes) + 1) // 2
    cut = min(cuts, key=lambda i: (abs(i - half), i), default=half)
    return nodes[:cut], nodes[cut:]


class Item:
    """Something open: which tests it wants next, and what it makes of their outcomes."""

    blocks: list[Block]

    def ask(self, agenda: Agenda, taken: set[str]) -> list[Block]:
        """Return tests without a common node; none while they must wait."""
        raise NotImplementedError

    def learn(self, agenda: Agenda, asked: list[Block], outcomes: list[Outcome]) -> list[Item]:
        """Return what takes its place."""
        raise NotImplementedError


@dataclass
class Sweep(Item):
    """A block of which nothing is known, tested as a whole or, between two sets, by its diagonal quarters."""

    block: Block
    others: list[Block] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Stand for the one block."""
        self.blocks = [self.block]

    def ask(self, agenda: Agenda, taken: set[str]) -> list[Block]:
        """Return the block, or the two quarters that hold more untested pairs than the two others."""
        del taken
        if not self.block.right:
            return [self.block]
        first, self.others = agenda.quarters(self.block)
        return first

    def learn(self, agenda: Agenda, asked: list[Block], outcomes: list[Outcome]) -> list[Item]:
        """Open what failed; what stayed within the noise counts as untested."""
        told = zip(asked, outcomes, strict=True)
        hits = [(part, outcome) for part, outcome in told if not outcome.passed and outcome.kind != OPEN]
        if len(hits) == len(self.others) == _PAIR:
            return [_Probe(self.block, hits, self.others)]
        return _narrowed(agenda, hits)


@dataclass
class Family(Item):
    """Blocks without a common node, of which at least one is slow, as was seen in a test of them all."""

    blocks: list[Block]
    seen: Outcome | None = None
    others: list[Block] = field(default_factory=list)

    def ask(self, agenda: Agenda, taken: set[str]) -> list[Block]:
        """Return the diagonal quarters; those that are known to be fine are passed over."""
        del taken
        while self.blocks:
            quarters = [agenda.quarters(block) for block in self.blocks]
            first, self.others = ([part for pair in quarters for part in pair[side]] for side in (0, 1))
            if first:
                return first
            self.blocks = self.others
        return []

    def learn(self, agenda: Agenda, asked: list[Block], outcomes: list[Outcome]) -> list[Item]:
        """Go on with the quarters that are slow, or with the untested ones when none is."""
        hits = [(part, outcome) for part, outcome in zip(asked, outcomes, strict=True) if not outcome.passed]
        if not hits:
            return [Family(self.others, self.seen)] if self.others else []
        if len(self.blocks) == 1 and len(hits) == len(self.others) == _PAIR:
            return [_Probe(self.blocks[0], hits, self.others, self.seen)]
        return _narrowed(agenda, hits, self.seen)


@dataclass
class _Probe(Item):
    """A block between two sets, of which both diagonal quarters are slow: a boundary, or two links?"""

    block: Block
    hits: list[tuple[Block, Outcome]]
    others: list[Block]
    seen: Outcome | None = None
    sampled: bool = False

    def __post_init__(self) -> None:
        """Stand for the one block."""
        self.blocks = [self.block]

    def ask(self, agenda: Agenda, taken: set[str]) -> list[Block]:
        del agenda, taken
        return self.samples() if self.sampled else self.others

    def samples(self) -> list[Block]:
        """Return smaller parts of the two sides, each with one of the other side."""
        count = min(_SAMPLES, len(self.block.left), len(self.block.right))
        lefts, rights = ([side[i::count] for i in range(count)] for side in (self.block.left, self.block.right))
        return [Block(left, rights[(i + 1) % count]) for i, left in enumerate(lefts)]

    def learn(self, agenda: Agenda, asked: list[Block], outcomes: list[Outcome]) -> list[Item]:
        slow = [(part, outcome) for part, outcome in zip(asked, outcomes, strict=True) if not outcome.passed]
        if not self.sampled:
            self.hits += slow
            if len(slow) < len(asked):
                return _narrowed(agenda, self.hits, self.seen)
            self.sampled = True
            return [self]
        if len(slow) < len(asked):
            return _narrowed(agenda, self.hits, self.seen)
        agenda.boundary(self.block.left, self.block.right, [outcome for _part, outcome in self.hits + slow])
        return []


@dataclass
class Border(Item):
    """Two sets that are slower together than what is normal for fewer nodes: are pairs across slow as well?

    Of pairs it is known what is normal. When they are fast, as many nodes may well be slower.
    """

    block: Block
    slow: list[Outcome]

    def __post_init__(self) -> None:
        """Stand for the one block."""
        self.blocks = [self.block]

    def ask(self, agenda: Agenda, taken: set[str]) -> list[Block]:
        """Return some pairs across, without known links."""
        lefts, rights = ([node for node in side if node not in taken] for side in (self.block.left, self.block.right))
        count = min(_PAIRS_ACROSS, len(lefts), len(rights))
        lefts, rights = ([side[len(side) * i // count] for i in range(count)] for side in (lefts, rights))
        pairs = zip(lefts, rights, strict=True)
        return [Block((one,), (other,)) for one, other in pairs if agenda.context.clean((one, other))]

    def learn(self, agenda: Agenda, asked: list[Block], outcomes: list[Outcome]) -> list[Item]:
        """Name the boundary when most pairs across it are slow."""
        del asked
        slow = [outcome for outcome in outcomes if outcome.guilty]
        if 2 * len(slow) > len(outcomes):
            agenda.name_boundary(self.block.left, self.block.right, self.slow + slow)
        else:
            agenda.suspect_boundary(self.block.left, self.block.right)
        return []


@dataclass
class LinkOrBorder(Border):
    """A slow pair of two switches, neither of whose nodes was fast with the switch of the other: link or boundary?

    Attributes:
        pair: of which it is asked.
        games: in which the pair was slow.
    """

    pair: Block = Block(())
    games: list[Outcome] = field(default_factory=list)

    def ask(self, agenda: Agenda, taken: set[str]) -> list[Block]:
        """Return some pairs across, none of which is one that is slow itself, once all of them are free."""
        slow = {frozenset(item.pair.nodes) for item in agenda.items if isinstance(item, LinkOrBorder)}
        pairs = [block for block in super().ask(agenda, set()) if frozenset(block.nodes) not in slow]
        return [] if any(node in taken for block in pairs for node in block.nodes) else pairs

    def learn(self, agenda: Agenda, asked: list[Block], outcomes: list[Outcome]) -> list[Item]:
        """Name the boundary when most other pairs across are slow, too, else the link."""
        del asked
        slow = [outcome for outcome in outcomes if outcome.guilty]
        if 2 * len(slow) > len(outcomes):
            agenda.name_boundary(self.block.left, self.block.right, self.games + slow)
        else:
            agenda.name_link(self.pair, self.games)
        return []


@dataclass
class Duel(Item):
    """A slow pair: the one node, the other, or the link between them."""

    block: Block
    slow: list[Outcome]
    fast: int = 0
    games: dict[str, list[tuple[str, Outcome]]] = field(default_factory=dict)
    meeting: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Stand for the one block."""
        self.blocks = [self.block]

    def cleared(self, node: str, agenda: Agenda) -> bool:
        """Return whether the node was fast with others: in a game since, or in two tests of the search."""
        return any(outcome.passed for _partner, outcome in self.games.get(node, [])) or agenda.proven(node)

    def ask(self, agenda: Agenda, taken: set[str]) -> list[Block]:
        """Return a game with a known-good partner for each node that is not cleared, then the pair again."""
        self.meeting = {}
        open_nodes = [node for node in self.block.nodes if not self.cleared(node, agenda)]
        for node in open_nodes:
            partner = agenda.partner(node, taken | self._met(node) | set(self.meeting.values()))
            if partner is not None:
                self.meeting[node] = partner
        if self.meeting:
            return [Block((node, partner)) for node, partner in self.meeting.items()]
        waiting = any(agenda.partner(node, self._met(node)) is not None for node in open_nodes)
        return [] if waiting else [self.block]

    def _met(self, node: str) -> set[str]:
        return {partner for partner, _outcome in self.games.get(node, [])} | set(self.block.nodes)

    def learn(self, agenda: Agenda, asked: list[Block], outcomes: list[Outcome]) -> list[Item]:
        """Blame a node that lost enough games, or else the link when the pair is slow again."""
        del asked
        if not self.meeting:
            return self._again(agenda, outcomes[0])
        for (node, partner), outcome in zip(self.meeting.items(), outcomes, strict=True):
            self.games.setdefault(node, []).append((partner, outcome))
        guilty = [
            node
            for node in self.block.nodes
            if not self.cleared(node, agenda) and len(self.games.get(node, [])) >= agenda.league.needed
        ]
        for node in guilty:
            agenda.blame(node, [outcome for _partner, outcome in self.games[node]])
        return [] if guilty or self.settled(agenda) else [self]

    def settled(self, agenda: Agenda) -> bool:
        """Name the link once both its nodes are cleared and it was slow twice."""
        if len(self.slow) - self.fast < _PAIR or not all(self.cleared(node, agenda) for node in self.block.nodes):
            return False
        agenda.link(self.block, self.slow)
        return True

    def _again(self, agenda: Agenda, outcome: Outcome) -> list[Item]:
        if outcome.passed:
            self.fast += 1
        else:
            self.slow.append(outcome)
        if len(self.slow) - self.fast >= _PAIR:
            agenda.link(self.block, self.slow)
            return []
        return [] if self.fast and self.fast >= len(self.slow) else [self]


def narrow(agenda: Agenda, block: Block, outcome: Outcome, seen: Outcome | None = None) -> list[Item]:
    """Return what follows from a slow block; what is known to be fine of it is left out.

    Args:
        agenda: the search.
        block: what was slow.
        outcome: of its test.
        seen: that of an earlier test with more around it, which was slow as well.
    """
    if block.pair:
        duel = Duel(block, [outcome] if seen is None else [seen, outcome])
        return [] if duel.settled(agenda) else [duel]
    return [Family([block] if block.right else agenda.untested_blocks(block.nodes) or [block], outcome)]


def _narrowed(agenda: Agenda, hits: list[tuple[Block, Outcome]], seen: Outcome | None = None) -> list[Item]:
    return [item for part, outcome in hits for item in narrow(agenda, part, outcome, seen)]
