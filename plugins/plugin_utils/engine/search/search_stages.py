# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""The stages of the culprit search: pairs, single nodes, all nodes together, and switches."""

from __future__ import annotations

from collections import deque
from math import inf, sqrt
from typing import TYPE_CHECKING, Any

from .bisection import boundary
from .link_search import LinkSearch
from .link_search_state import UNSURE
from .search_data import FAILED, NONE, OPEN, Context, Question
from .sequential_test import BOUND
from .tournament import League, neighbours, next_games, round_robin

if TYPE_CHECKING:
    from .search_data import Outcome, Steps

TOURNAMENT = 16
_PASSES = 8
_PAIR = 2
_SQUARE = 4
_FEW = 6
_SAMPLES = 4


def play(league: League, games: list[tuple[str, ...]], stage: str) -> Steps:
    """Run games without common nodes, and record their outcomes."""
    outcomes = yield Question(stage, [league.nodes(game) for game in games])
    for game, outcome in zip(games, outcomes):
        league.record(game, outcome)


def judge_players(context: Context, league: League) -> Steps:
    """Run games until each node is cleared, found faulty or without a partner; test nodes without a partner alone."""
    while doubtful := league.judge():
        games, stuck = next_games(league, doubtful)
        if not games:
            yield from alone(context, league, stuck or doubtful)
            break
        yield from play(league, list(games), "confirm")
    league.judge()
    suspects = [node for node in league.lost if league.failures(node) and _may_be_uplink(context, league, node)]
    if suspects:
        for node in suspects:
            del league.lost[node]
        league.spared.update(suspects)
        yield from alone(context, league, suspects)
    context.out |= league.lost.keys()


def _may_be_uplink(context: Context, league: League, node: str) -> bool:
    """Return whether a bad uplink of the switch of the node or its partners may explain why the node was slow."""
    switch_of = context.switch_of
    mine = switch_of[node]
    across = {
        switch_of[member]
        for member, games in league.games.items()
        for others, seen in games.items()
        if seen[-1].passed and any(switch_of[other] != switch_of[member] for other in others)
    }
    partners = {other for others in league.failures(node) for other in others}
    if any(switch_of[other] == mine for other in partners):
        return False
    single = sum(switch_of[other] == mine for other in context.nodes) == 1
    return (mine not in across and not single) or sum(switch_of[other] in across for other in partners) < league.needed


def alone(context: Context, league: League, nodes: list[str]) -> Steps:
    """Test nodes alone, and report nodes that fail twice as culprits; nodes that pass stay unresolved.

    If a cluster has two nodes that pass alone and fail together, the link between them is reported.
    """
    failed: dict[str, list[Outcome]] = {node: [] for node in nodes}
    suspects = list(nodes)
    for _ in range(_PAIR):
        if not suspects:
            break
        outcomes = yield Question("alone", [(node,) for node in suspects])
        for node, outcome in zip(suspects, outcomes):
            failed[node].append(outcome)
        suspects = [node for node, outcome in zip(suspects, outcomes) if outcome.guilty]
    league.lost.update({node: failed[node] for node in suspects})
    league.judge()
    if len(context.nodes) > _PAIR:
        rest = [node for node in nodes if node not in league.lost and not league.verdict(node)]
        _leave_open(context, rest, "fast alone, but slow with other nodes, none of which is known to be good")


def _leave_open(context: Context, nodes: list[str], reason: str) -> None:
    if nodes:
        context.out.update(nodes)
        context.found["unresolved"].append({"nodes": nodes, "reason": reason})


def together(context: Context, league: League) -> Steps:
    """Test all nodes that are not blamed together, and search for the cause if they are slow."""
    link_search = LinkSearch(context, league)
    if len(context.nodes) <= TOURNAMENT:
        yield from _slow_pairs(context, league, link_search)
    causes = deque([_slow_pairs, _switches])
    failed = 0
    while failed < _PASSES:
        nodes = _next_whole(context, link_search)
        if len(nodes) <= _PAIR:
            return
        (outcome,) = yield Question("whole", [nodes])
        if outcome.passed:
            continue
        failed += 1
        if outcome.kind != NONE:
            before = link_search.found
            while causes and link_search.found == before:
                yield from causes.popleft()(context, league, link_search)
            if link_search.found == before and not outcome.guilty and len(context.nodes) <= TOURNAMENT:
                # Every pair was tested, and no reference exists for this many nodes.
                link_search.suspect(outcome.nodes, UNSURE)
                return
            yield from _explain(link_search, outcome, before, again=failed > 1)
    reason = "slow together, cause not found" if outcome.kind != NONE else "the test of all nodes had no result"
    context.found["unresolved"].append({"nodes": list(nodes), "reason": reason})


def _next_whole(context: Context, link_search: LinkSearch) -> tuple[str, ...]:
    """Return the nodes to test together next, without one end of each known slow link; empty if none are left.

    After the first such test was fast, tests with the other ends are needed only for pairs that no test has covered.
    """
    ways = context.wholes(context.innocent())
    left = [way for way in ways if not context.covered(way)]
    if len(left) < len(ways):
        left = [way for way in left if not link_search.covered(way)]
    return next(iter(left), ())


def _explain(link_search: LinkSearch, outcome: Outcome, before: int, *, again: bool) -> Steps:
    """Split the nodes to find the reason why they are slow together, unless it is known."""
    if link_search.found > before:
        return
    everybody = [link_search.context.nodes]
    if not link_search.split:
        link_search.split = True
        link_search.add(outcome.nodes, outcome)
    yield from link_search.run(before + 1, everybody)
    if link_search.found == before and again:
        link_search.forget()
        link_search.add(outcome.nodes, outcome)
        yield from link_search.run(before + 1, everybody)


def _slow_pairs(context: Context, league: League, link_search: LinkSearch) -> Steps:
    """Find the cause of slow pairs whose nodes are not faulty: boundaries first, then links."""
    lost = [pair for pair in league.pairs_lost() if not context.out.intersection(pair)]
    for sides in _cuts(context, league, lost):
        outcomes = [seen for one, other in lost if _across((one, other), sides) for seen in _games(league, one, other)]
        boundary(link_search, *sides, outcomes)
    for one, other in lost:
        near = context.switch_of[one] == context.switch_of[other]
        if context.clean((one, other)) and (near or len(context.nodes) <= TOURNAMENT):
            link_search.duel((one, other), _games(league, one, other))
    yield from link_search.run(inf)


def _games(league: League, one: str, other: str) -> list[Outcome]:
    return league.games[one][frozenset({other})]


def _across(pair: tuple[str, ...], sides: tuple[list[str], list[str]]) -> bool:
    left, right = sides
    return (pair[0] in left and pair[1] in right) or (pair[1] in left and pair[0] in right)


def _cuts(context: Context, league: League, lost: list[tuple[str, str]]) -> list[tuple[list[str], list[str]]]:
    """Return pairs of sets without a fast pair between them: parts of the cluster, or two switches."""
    nodes = context.innocent()
    components = sorted(_components(league, nodes), key=len, reverse=True)
    cuts = [(component, components[0]) for component in components[1:] if len(component) > 1]
    teams = list(_teams(context, nodes).values())
    cuts += [(one, other) for i, one in enumerate(teams) for other in teams[i + 1 :]]
    found: list[tuple[list[str], list[str]]] = []
    known = set(lost)
    for one, other in cuts:
        if not _SQUARE <= len(one) * len(other) <= len(known) or min(len(one), len(other)) < _PAIR:
            continue
        pairs = {(a, b) if a < b else (b, a) for a in one for b in other}
        if pairs <= known:
            found.append((one, other))
            known -= pairs
    return found


def _components(league: League, nodes: list[str]) -> list[list[str]]:
    """Return the sets of nodes that are connected by fast pairs."""
    components: list[list[str]] = []
    left = dict.fromkeys(nodes)
    while left:
        component = [next(iter(left))]
        del left[component[0]]
        for node in component:
            for others, seen in league.games.get(node, {}).items():
                new = [other for other in others if seen[-1].passed and other in left]
                component += new
                for other in new:
                    del left[other]
        components.append(component)
    return components


def _teams(context: Context, nodes: list[str] | None = None) -> dict[str, list[str]]:
    """Return the nodes of each switch that can be tested together."""
    teams: dict[str, list[str]] = {}
    for node in nodes or context.without_bad(context.innocent()):
        teams.setdefault(context.switch_of[node], []).append(node)
    return teams


def _switches(context: Context, _league: League, link_search: LinkSearch) -> Steps:
    """Test each switch, then pairs of switches; a switch that is slow with two good ones has a bad uplink."""
    teams = [tuple(team) for team in _teams(context).values()]
    if len(teams) <= 1:
        return
    several = [team for team in teams if len(team) > 1]
    if several:
        outcomes = yield Question("switches", several)
        failed = [(team, outcome) for team, outcome in zip(several, outcomes) if not outcome.passed]
        for team, outcome in failed:
            link_search.add(team, outcome)
        yield from link_search.run(inf, [team for team, _outcome in failed])
    if len(teams) > _PAIR:
        yield from _uplinks(context, link_search)


def _uplinks(context: Context, link_search: LinkSearch) -> Steps:
    teams = {switch: tuple(team) for switch, team in _teams(context).items()}
    # Few switches mean few partners, so samples of nodes are also tested.
    switch_league = League(teams, dict.fromkeys(teams, ""), _PAIR, few=True)
    rounds = round_robin(list(teams)) if len(teams) <= _FEW else [neighbours(list(teams), switch_league.group_of)]
    for games in rounds:
        yield from play(switch_league, list(games), "switches")
    # A switch can be judged only if at least one other switch is good.
    for games in round_robin(list(teams))[: 0 if len(teams) <= _FEW else _FEW]:
        if switch_league.passed:
            break
        yield from play(switch_league, list(games), "switches")
    while doubtful := switch_league.judge():
        more, _stuck = next_games(switch_league, doubtful)
        if not more:
            break
        yield from play(switch_league, list(more), "confirm")
    if switch_league.lost:
        yield from _sample_uplinks(switch_league, teams)
    for switch, outcomes in switch_league.lost.items():
        rest = [node for node in context.nodes if context.switch_of[node] != switch]
        mine = [node for node in context.nodes if context.switch_of[node] == switch]
        boundary(link_search, mine, rest, outcomes)
    for one, other in switch_league.pairs_lost():
        link_search.between(teams[one], teams[other])
    yield from link_search.run(0, [context.nodes])


def _sample_uplinks(switch_league: League, teams: dict[str, tuple[str, ...]]) -> Steps:
    """Clear a switch if some of its nodes are fast with other switches: then links are slow, not the uplink."""
    good = [node for switch, team in teams.items() if switch not in switch_league.lost for node in team]
    samples: dict[str, list[tuple[str, ...]]] = {}
    for i, switch in enumerate(switch_league.lost):
        others = good[i :: len(switch_league.lost)]
        count = min(_SAMPLES, len(teams[switch]), len(others))
        samples[switch] = [teams[switch][at::count] + tuple(others[at::count]) for at in range(count)]
    outcomes = iter((yield Question("confirm", [test for tests in samples.values() for test in tests])))
    for switch, tests in samples.items():
        seen = [next(outcomes) for _ in tests]
        if any(outcome.passed for outcome in seen):
            del switch_league.lost[switch]
        else:
            switch_league.lost[switch] += seen


def name_nodes(context: Context, league: League) -> None:
    """Record the faulty nodes; nodes without a result stay unresolved."""
    for node in sorted(league.lost):
        outcomes = league.lost[node]
        partners = sorted({other for outcome in outcomes for other in outcome.nodes if other != node})
        kinds = sorted({outcome.kind for outcome in outcomes})
        how = f"{' or '.join(kinds)} {'with ' + ' and with '.join(partners) if partners else 'alone'}"
        if kinds == [NONE]:
            context.found["unresolved"].append({"nodes": [node], "reason": f"no result {how.split(' ', 1)[1]}"})
        else:
            context.conclude("nodes", {"node": node, "partners": partners, "reason": how}, outcomes)


def fitting_node(context: Context, outcomes: list[Outcome]) -> list[dict[str, Any]]:
    """Return the single node that explains all slow tests of an interrupted search, or an empty list.

    The node must have failed as often as the complete search requires, with partners that are fast with others, and
    must never have passed. All failed tests must contain it and be slower than all passed tests by more than the noise.
    If all pairs were tested, passed tests must connect all other nodes; otherwise the fault may lie between two parts.

    Args:
        context: nodes and switches.
        outcomes: outcomes of all decided tests so far.
    """
    league = League({node: (node,) for node in context.nodes}, context.switch_of)
    results = [outcome for outcome in outcomes if outcome.passed or (outcome.guilty and outcome.kind in FAILED)]
    for outcome in results:
        if _PAIR <= len(outcome.nodes) <= _PAIR + 1:
            league.record(outcome.nodes, outcome)
    guilty = [node for node in context.nodes if league.verdict(node) is False]
    if len(guilty) != 1:
        return []
    slow = [outcome for outcome in outcomes if not outcome.passed and outcome.kind not in {NONE, OPEN}]
    explains = all(guilty[0] in outcome.nodes for outcome in slow)
    passed_too = any(guilty[0] in outcome.nodes for outcome in results if outcome.passed)
    rest = [node for node in context.nodes if node != guilty[0]]
    parted = len(context.nodes) <= TOURNAMENT and len(_components(league, rest)) > 1
    if not explains or passed_too or parted or not _is_apart(results) or _may_be_uplink(context, league, guilty[0]):
        return []
    league.blame(guilty[0])
    scratch = Context(context.nodes, context.switch_of)
    name_nodes(scratch, league)
    return scratch.found["nodes"]


def _is_apart(outcomes: list[Outcome]) -> bool:
    """Return whether failed tests are slower than passed ones by the margin that a single test requires."""
    measured = [outcome for outcome in outcomes if outcome.mean is not None and len(outcome.nodes) > 1]
    fast = min((outcome for outcome in measured if outcome.passed), key=_mean, default=None)
    slow = max((outcome for outcome in measured if not outcome.passed), key=_mean, default=None)
    if fast is None or slow is None:
        return True
    return _mean(fast) - _mean(slow) >= sqrt(2 * BOUND * (fast.error**2 + slow.error**2))


def _mean(outcome: Outcome) -> float:
    return outcome.mean or 0.0
