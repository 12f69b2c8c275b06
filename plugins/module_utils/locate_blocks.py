# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""Finds slow links and boundaries between nodes that are fine by themselves, by splitting tests that failed.

A block is a set of connections: all those among some nodes, or all those between two sets of nodes. A block that
failed is split into quarters, of which the two diagonal ones have no common node and run at once. When both pass,
the fault is in the two others, which are not tested but split at once: so every round halves the surroundings of the
fault, and one slow link among N nodes takes about log2 N rounds, whatever its ends.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from .locate_evidence import Question

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .locate_evidence import Context, Outcome, Steps
    from .tournament import League

__all__ = ["Agenda", "Block"]

_PAIR = 2
_SAMPLES = 4
_MOST_ROUNDS = 60
_REPEATS = 2


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

    def touches(self, nodes: frozenset[str]) -> bool:
        """Return whether some of its connections lie among the nodes."""
        if self.right:
            return not nodes.isdisjoint(self.left) and not nodes.isdisjoint(self.right)
        return len(nodes.intersection(self.left)) > 1

    def without(self, node: str) -> Block | None:
        """Return it less one node; None when no connection is left."""
        left, right = (tuple(n for n in side if n != node) for side in (self.left, self.right))
        if self.right:
            return Block(left, right) if left and right else None
        return Block(left) if len(left) > 1 else None

    def carve(self, hot: set[str]) -> tuple[Block | None, list[Block]]:
        """Return the connections that touch no hot node (None when there are none), and the others."""
        sides = self.left, self.right
        cold, warm = ([tuple(n for n in side if (n in hot) is is_hot) for side in sides] for is_hot in (False, True))
        if self.right:
            rest = [(warm[0], self.right), (cold[0], warm[1])]
            part = Block(*cold) if all(cold) else None
        else:
            rest = [(warm[0], ()), (cold[0], warm[0])] if len(warm[0]) > 1 else [(cold[0], warm[0])]
            part = Block(cold[0]) if len(cold[0]) > 1 else None
        return part, [Block(*pair) for pair in rest if pair[0] and (pair[1] or len(pair[0]) > 1)] if any(warm) else []

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


class _Item:
    """Something open: which tests it wants next, and what it makes of their outcomes."""

    blocks: list[Block]

    def ask(self, agenda: Agenda, taken: set[str]) -> list[Block]:
        """Return tests without a common node; none while they must wait."""
        raise NotImplementedError

    def learn(self, agenda: Agenda, asked: list[Block], outcomes: list[Outcome]) -> list[_Item]:
        """Return what takes its place."""
        raise NotImplementedError


@dataclass
class _Unknown(_Item):
    """A block that has not been tested."""

    block: Block
    seen: int = 0

    def __post_init__(self) -> None:
        self.blocks = [self.block]

    def ask(self, agenda: Agenda, taken: set[str]) -> list[Block]:
        """Return the block, or as much of it as has nothing to do with what is known to be slow."""
        del taken
        cold, rest = self.block.carve(agenda.hot())
        if not rest or cold is None or self.seen:
            return [] if agenda.blocked([self], self.blocks) else [self.block]
        if 2 * len(cold.nodes) < len(self.block.nodes) or agenda.blocked([self], [cold]):
            return []
        self.block, self.blocks = cold, [cold]
        agenda.items += [_Unknown(part) for part in rest]
        return [cold]

    def learn(self, agenda: Agenda, asked: list[Block], outcomes: list[Outcome]) -> list[_Item]:
        """Drop a block that passes; a failure that may be noise is repeated."""
        del agenda, asked
        self.seen += 1
        if outcomes[0].passed:
            return []
        if outcomes[0].marginal and self.seen < _REPEATS:
            return [self]
        return [_slow(self.block, outcomes[0])]


@dataclass
class _Family(_Item):
    """Blocks without a common node, of which at least one is slow."""

    blocks: list[Block]

    def ask(self, agenda: Agenda, taken: set[str]) -> list[Block]:
        del taken
        return [part for block in self.blocks for part in block.quarters(agenda.context.switch_of)[0]]

    def learn(self, agenda: Agenda, asked: list[Block], outcomes: list[Outcome]) -> list[_Item]:
        others = [part for block in self.blocks for part in block.quarters(agenda.context.switch_of)[1]]
        hits = [(part, outcome) for part, outcome in zip(asked, outcomes, strict=True) if not outcome.passed]
        if not hits:
            return [_Family(others)] if others else []
        if len(self.blocks) == 1 and len(hits) == len(others) == _PAIR:
            return [_Probe(self.blocks[0], hits, others)]
        return [_slow(part, outcome) for part, outcome in hits] + [_Unknown(part) for part in others]


@dataclass
class _Probe(_Item):
    """A block between two sets, of which both diagonal quarters are slow: a boundary, or two links?"""

    block: Block
    hits: list[tuple[Block, Outcome]]
    others: list[Block]
    sampled: bool = False

    def __post_init__(self) -> None:
        self.blocks = [self.block]

    def ask(self, agenda: Agenda, taken: set[str]) -> list[Block]:
        del agenda, taken
        return self.samples() if self.sampled else self.others

    def samples(self) -> list[Block]:
        """Return smaller parts of the two sides, each with one of the other side."""
        count = min(_SAMPLES, len(self.block.left), len(self.block.right))
        lefts, rights = ([side[i::count] for i in range(count)] for side in (self.block.left, self.block.right))
        return [Block(left, rights[(i + 1) % count]) for i, left in enumerate(lefts)]

    def learn(self, agenda: Agenda, asked: list[Block], outcomes: list[Outcome]) -> list[_Item]:
        slow = [(part, outcome) for part, outcome in zip(asked, outcomes, strict=True) if not outcome.passed]
        if not self.sampled:
            self.hits += slow
            if len(slow) < len(asked):
                return [_slow(part, outcome) for part, outcome in self.hits]
            self.sampled = True
            return [self]
        if len(slow) < len(asked):
            return [_slow(part, outcome) for part, outcome in self.hits]
        agenda.boundary(self.block.left, self.block.right, [outcome for _part, outcome in self.hits + slow])
        return []


@dataclass
class _Duel(_Item):
    """A slow pair: the one node, the other, or the link between them."""

    block: Block
    slow: list[Outcome]
    fast: int = 0
    games: dict[str, list[tuple[str, Outcome]]] = field(default_factory=dict)
    meeting: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.blocks = [self.block]

    def cleared(self, node: str) -> bool:
        """Return whether the node was fast with somebody else since."""
        return any(outcome.passed for _partner, outcome in self.games.get(node, []))

    def ask(self, agenda: Agenda, taken: set[str]) -> list[Block]:
        self.meeting = {}
        open_nodes = [node for node in self.block.nodes if not self.cleared(node)]
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

    def learn(self, agenda: Agenda, asked: list[Block], outcomes: list[Outcome]) -> list[_Item]:
        del asked
        if not self.meeting:
            return self._again(agenda, outcomes[0])
        for (node, partner), outcome in zip(self.meeting.items(), outcomes, strict=True):
            self.games.setdefault(node, []).append((partner, outcome))
        guilty = [
            node
            for node in self.block.nodes
            if not self.cleared(node) and len(self.games.get(node, [])) >= agenda.context.needed()
        ]
        for node in guilty:
            agenda.blame(node, [outcome for _partner, outcome in self.games[node]])
        return [] if guilty else [self]

    def _again(self, agenda: Agenda, outcome: Outcome) -> list[_Item]:
        if outcome.passed:
            self.fast += 1
        else:
            self.slow.append(outcome)
        if len(self.slow) - self.fast >= _PAIR:
            agenda.link(self.block, self.slow)
            return []
        return [] if self.fast and self.fast >= len(self.slow) else [self]


def _slow(block: Block, outcome: Outcome) -> _Item:
    """Return what follows from a slow block."""
    return _Duel(block, [outcome]) if block.pair else _Family([block])


@dataclass
class Agenda:
    """The blocks that are open, and the culprits that were found.

    Attributes:
        context: the state of the search.
        league: the games of the nodes, from which known-good partners come.
        items: what is open.
        found: how many culprits were found.
    """

    context: Context
    league: League
    items: list[_Item] = field(default_factory=list)
    found: int = 0

    def add(self, nodes: tuple[str, ...], outcome: Outcome) -> None:
        """Open the block of a test that failed."""
        self.items.append(_slow(Block(nodes), outcome))

    def duel(self, pair: tuple[str, str], outcomes: list[Outcome]) -> None:
        """Open a pair that was slow, though both nodes were fast with others."""
        self.items.append(_Duel(Block(pair), [outcome for outcome in outcomes if not outcome.passed]))

    def between(self, left: tuple[str, ...], right: tuple[str, ...]) -> None:
        """Open the block between two sets that were slow together, though each is fine."""
        self.items.append(_Family([Block(left, right)]))

    def run(self, goal: float = 0) -> Steps:
        """Ask for rounds until nothing is known to be slow that is not explained.

        Blocks that may be fine are tested only beside others and stay open, for a test of all together may show at
        once that they are fine.

        Args:
            goal: go on testing them until so many culprits are found or nothing is open.
        """
        for _ in range(_MOST_ROUNDS):
            self._tidy()
            if self.idle and self.found >= goal:
                return
            plan = self._plan()
            if not plan:
                break
            outcomes = yield Question("search", [block.nodes for _item, blocks in plan for block in blocks])
            rest = iter(outcomes)
            for item, blocks in plan:
                self.items.remove(item)
                self.items += item.learn(self, blocks, [next(rest) for _ in blocks])
        left = {node for item in self.items for block in item.blocks for node in block.nodes}
        if left:
            nodes = [node for node in self.context.nodes if node in left]
            self.context.found["unresolved"].append({"nodes": nodes, "reason": "slow together, but no cause was found"})
            self.items = []

    @property
    def idle(self) -> bool:
        """Whether nothing is known to be slow that is not explained."""
        return all(isinstance(item, _Unknown) for item in self.items)

    def _plan(self) -> list[tuple[_Item, list[Block]]]:
        """Return the tests of the next round, and for what they are."""
        taken: set[str] = set()
        plan = []
        for item in sorted(self.items, key=lambda item: (isinstance(item, _Unknown), _size(item))):
            blocks = item.ask(self, taken)
            nodes = {node for block in blocks for node in block.nodes}
            if blocks and not nodes & taken:
                taken |= nodes
                plan.append((item, blocks))
        return plan

    def _tidy(self) -> None:
        """Split the blocks that cannot be tested as they are, since a known culprit lies within."""
        queue, self.items = self.items, []
        while queue:
            item = queue.pop(0)
            if isinstance(item, _Duel) or all(self.context.clean(block.nodes) for block in item.blocks):
                self.items.append(item)
                continue
            for block in item.blocks:
                if self.context.clean(block.nodes):
                    queue.append(_Unknown(block))
                elif not block.pair:
                    queue += [_Unknown(part) for parts in block.quarters(self.context.switch_of) for part in parts]

    def hot(self) -> set[str]:
        """Return the nodes of what is known to be slow and not explained."""
        known = [item for item in self.items if not isinstance(item, _Unknown)]
        return {node for item in known for block in item.blocks for node in block.nodes}

    def blocked(self, items: list[_Item], blocks: list[Block]) -> bool:
        """Return whether something open but the items lies within the blocks, so that a failure would say little."""
        nodes = frozenset(node for block in blocks for node in block.nodes)
        others = (other for other in self.items if all(other is not item for item in items))
        return any(block.touches(nodes) for other in others for block in other.blocks)

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
        """Enter a guilty node; what was slow with it has to be tested anew."""
        self.league.lost[node] = outcomes
        self.context.out.add(node)
        self.found += 1
        items: list[_Item] = []
        for item in self.items:
            if not any(node in block.nodes for block in item.blocks):
                items.append(item)
                continue
            less = [block.without(node) for block in item.blocks]
            items += [_Unknown(block) for block in less if block is not None]
        self.items = items

    def link(self, block: Block, outcomes: list[Outcome]) -> None:
        """Enter a slow link."""
        one, other = sorted(block.nodes)
        self.context.bad.append((frozenset({one}), frozenset({other})))
        self._conclude("links", {"nodes": [one, other]}, outcomes)

    def boundary(self, left: Sequence[str], right: Sequence[str], outcomes: list[Outcome]) -> None:
        """Enter a slow boundary between two sets of nodes, named by the switches that it parts."""
        self.context.bad.append((frozenset(left), frozenset(right)))
        sides = [sorted(left), sorted(right)]
        switches = [{self.context.switch_of[node] for node in side} for side in sides]
        apart = switches[0].isdisjoint(switches[1])
        names = sorted(name for side in switches if apart and len(side) == 1 for name in side)
        self._conclude("boundaries", {"switches": names, "sides": sides}, outcomes)

    def _conclude(self, what: str, entry: dict[str, Any], outcomes: list[Outcome]) -> None:
        self.context.conclude(what, entry, outcomes)
        self.found += 1


def _size(item: _Item) -> int:
    return sum(len(block.nodes) for block in item.blocks)
