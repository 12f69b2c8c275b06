# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""Test pairs of nodes in a round-robin tournament, and decide which nodes to blame for slow pairs.

A player is a node, or a switch with all its nodes; a game is a test of two or three players. A fast game clears all its
players. A slow game shows only that one of the players, or the link between them, is faulty.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf
from statistics import fmean
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .search_data import Outcome

# A player has at most min(number of players, _TOURNAMENT) + _MOST_MORE games.
_TOURNAMENT = 16
_MOST_MORE = 4
# A part whose failures are within _NEAR of the limit needs _MORE_NEAR more of them. _NEAR is a logarithm: a quarter of
# the smallest detectable drop.
_NEAR = 0.026
_MORE_NEAR = 2


def round_robin(players: list[str]) -> list[list[tuple[str, str]]]:
    """Return the rounds of a round-robin tournament: each player meets every other player once.

    An even number N of players needs N-1 rounds, an odd number N rounds with one bye each.
    """
    seats: list[str | None] = [*players] if len(players) % 2 == 0 else [*players, None]
    half = len(seats) // 2
    rounds = []
    for _ in range(len(seats) - 1):
        pairs = zip(seats[:half], reversed(seats[half:]))
        rounds.append([(one, other) for one, other in pairs if one is not None and other is not None])
        seats = [seats[0], seats[-1], *seats[1:-1]]
    return rounds if len(players) > 1 else []


def neighbours(players: list[str], group_of: dict[str, str]) -> list[tuple[str, ...]]:
    """Return the players in pairs, from the same group if possible; with an odd number, one pair becomes a triple."""
    groups: dict[str, list[str]] = {}
    for player in players:
        groups.setdefault(group_of[player], []).append(player)
    tests: list[tuple[str, ...]] = []
    single: list[str] = []
    for members in groups.values():
        tests += zip(members[0::2], members[1::2])
        single += members[len(members) // 2 * 2 :]
    tests += zip(single[0::2], single[1::2])
    if len(single) % 2 and tests:
        mine = group_of[single[-1]]
        at = next((i for i, test in enumerate(tests) if group_of[test[0]] == group_of[test[1]] == mine), len(tests) - 1)
        tests[at] = (*tests[at], single[-1])
    return tests


@dataclass
class League:
    """The games of a set of players.

    Attributes:
        teams: the nodes of each player.
        group_of: the switch of each player; partners on the same switch are preferred.
        needed: failures with different known-good partners before a player is blamed.
        few: whether failures with all good players are sufficient if fewer than `needed` players are good.
        lost: blamed players, with the outcomes that prove it.
        spared: players whose failures have another cause, which are not blamed.
        games: the games of each player, by its partners.
        passed: players that were fast in at least one game.
    """

    teams: dict[str, tuple[str, ...]]
    group_of: dict[str, str]
    needed: int = 2
    few: bool = False
    lost: dict[str, list[Outcome]] = field(default_factory=dict)
    spared: set[str] = field(default_factory=set)
    games: dict[str, dict[frozenset[str], list[Outcome]]] = field(default_factory=dict)
    passed: set[str] = field(default_factory=set)

    def record(self, players: tuple[str, ...], outcome: Outcome) -> None:
        """Record a game."""
        for player in players:
            others = frozenset(players) - {player}
            self.games.setdefault(player, {}).setdefault(others, []).append(outcome)
        for player in players:
            if any(_net(games) > 0 for games in self.games[player].values()):
                self.passed.add(player)
            else:
                self.passed.discard(player)

    def good(self, player: str) -> bool:
        """Return whether the player has been fast in a game and is not blamed."""
        return player in self.passed and player not in self.lost

    def failures(self, player: str) -> list[frozenset[str]]:
        """Return the known-good partners of the player's slow games, without games that share a partner.

        One slow link would explain all games with the same partner.
        """
        games = self.games.get(player, {})
        lost = [others for others, seen in games.items() if _net(seen) < 0 and all(map(self.good, others))]
        met: set[str] = set()
        apart = []
        for others in sorted(lost, key=len):
            if met.isdisjoint(others):
                met |= others
                apart.append(others)
        return apart

    def _enough(self, player: str, failures: list[frozenset[str]]) -> float:
        """Return the number of failures that prove a player faulty; results near the limit require more.

        A healthy player that is slightly slower than others is near the limit with every partner. With `few`, the
        result is at most the number of good players.
        """
        most = max(self.needed, sum(map(self.good, self.teams))) if self.few else inf
        margins = [outcome.margin for others in failures for outcome in self.games[player][others]]
        more = _MORE_NEAR if margins and fmean(margins) < _NEAR else 0
        return min(self.needed + more, most)

    def verdict(self, player: str) -> bool | None:
        """Return True if the player is cleared, False if it is faulty, None if undecided."""
        if player in self.lost:
            return False
        nets = [_net(seen) for seen in self.games.get(player, {}).values()]
        won = sum(net for net in nets if net > 0)
        failures = self.failures(player)
        if won > 1 or (won and not failures):
            return True
        if won or 0 in nets or player in self.spared or len(failures) < self._enough(player, failures):
            return None
        return False

    def blame(self, player: str) -> None:
        """Record the player as faulty."""
        games = self.games[player]
        self.lost[player] = [outcome for others in self.failures(player) for outcome in games[others]]

    def judge(self) -> list[str]:
        """Record the nodes whose test results prove a fault, and return the undecided nodes."""
        while True:
            verdicts = {player: self.verdict(player) for player in self.teams}
            guilty = [player for player, innocent in verdicts.items() if innocent is False and player not in self.lost]
            if not guilty:
                return [player for player, innocent in verdicts.items() if innocent is None]
            for player in guilty:
                self.blame(player)

    def partner(self, player: str, taken: set[str]) -> tuple[str | None, bool]:
        """Return a known-good partner for the next game, and whether one may become free later."""
        games = self.games.get(player, {})
        if sum(map(len, games.values())) >= min(len(self.teams), _TOURNAMENT) + _MOST_MORE:
            return None, False
        again = [next(iter(others)) for others, seen in games.items() if len(others) == 1 and _net(seen) >= 0]
        again = [other for other in again if self.good(other)]
        if again:
            free = [other for other in again if other not in taken]
            return (free[0] if free else None), True
        met = {other for others, seen in games.items() if len(others) == 1 or _net(seen) < 0 for other in others}
        new = [p for p in self.teams if p != player and self.good(p) and p not in met]
        near = [p for p in new if self.group_of[p] == self.group_of[player]]
        return next((p for p in near or new if p not in taken), None), bool(new)

    def pairs_lost(self) -> list[tuple[str, str]]:
        """Return the pairs that were slow together although neither player is blamed."""
        found = set()
        for player, games in self.games.items():
            for others, seen in games.items():
                if len(others) == 1 and _net(seen) < 0 and not {player, *others} & self.lost.keys():
                    found.add(tuple(sorted((player, *others))))
        return sorted((one, other) for one, other in found)

    def nodes(self, players: tuple[str, ...]) -> tuple[str, ...]:
        """Return the nodes of the players."""
        return tuple(node for player in players for node in self.teams[player])


def next_games(league: League, doubtful: list[str]) -> tuple[list[tuple[str, str]], list[str]]:
    """Return the next games of undecided players with known-good partners, and the players without a partner."""
    taken: set[str] = set()
    games: list[tuple[str, str]] = []
    stuck: list[str] = []
    for player in doubtful:
        if player in taken:
            continue
        partner, later = league.partner(player, taken)
        if partner is None:
            stuck += [] if later else [player]
            continue
        games.append((player, partner))
        taken |= {player, partner}
    return games, stuck


def _net(games: list[Outcome]) -> int:
    return sum(1 if game.passed else -1 for game in games)
