# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""The culprit search: given the results so far, which tests next, or who is guilty.

Few nodes (16 or less) play a full tournament; of many, neighbours play in pairs. Whoever was slow plays known-good
nodes of the same switch and is blamed after failing with two different ones, or alone. Then all that are innocent run
together; when that is slow although no node is, each switch is tested, then pairs of switches, and what is still slow
is halved until a link between two nodes or a boundary between two sets is left. Nodes that this leaves idle are tested
in the same rounds, so that several faults are found beside each other.
"""

from __future__ import annotations

from collections import defaultdict, deque
from math import isfinite
from typing import TYPE_CHECKING, Any

from .evidence import OUTCOMES, RELATIVE, Context
from .stages import TOURNAMENT, alone, name_nodes, play, settle, together
from .tournament import League, neighbours, round_robin

if TYPE_CHECKING:
    from .evidence import Question, Steps

__all__ = ["Locator", "locate"]

_NO_SWITCH = ""


class Locator:
    """Runs the search round by round.

    Attributes:
        question: the next round; None when the search is over.
        found: conclusions so far: nodes, links, boundaries, unresolved.
    """

    def __init__(
        self, nodes: list[str], topology: dict[str, list[str]] | None = None, relative: float = RELATIVE
    ) -> None:
        """Begin a search.

        Args:
            nodes: names of the nodes.
            topology: nodes of each switch; without it all nodes count as nodes of one.
            relative: what share of its peers' median busbw a test must reach, besides its floor.

        Raises:
            ValueError: a node is named twice, or the topology names a node twice or leaves one out.
        """
        switch_of = _switches(nodes, topology or {})
        order = {switch: i for i, switch in enumerate(dict.fromkeys(switch_of[node] for node in nodes))}
        ordered = sorted(nodes, key=lambda node: order[switch_of[node]])
        self._context = Context(ordered, switch_of, relative)
        self._steps = _search(self._context)
        self.found = self._context.found
        self.rounds = 0
        self._told = 0
        self.question: Question | None = next(self._steps, None)

    def tell(self, results: list[dict[str, Any]], first: list[int] | None = None) -> None:
        """Give the results of the question's tests, in their order.

        Args:
            results: busbw and floor in GB/s and outcome of each test, as locate takes them.
            first: position of each among all results; by default they are counted on.
        """
        if self.question is None:
            return
        places = first if first is not None else list(range(self._told, self._told + len(results)))
        self._told += len(results)
        outcomes = self._context.read(self.question.tests, results, places)
        self.rounds += 1
        try:
            self.question = self._steps.send(outcomes)
        except StopIteration:
            self.question = None


def _switches(nodes: list[str], topology: dict[str, list[str]]) -> dict[str, str]:
    if len(set(nodes)) < len(nodes):
        twice = sorted({node for node in nodes if nodes.count(node) > 1})
        message = f"nodes named twice: {', '.join(twice)}"
        raise ValueError(message)
    switch_of: dict[str, str] = {}
    for switch, members in topology.items():
        for node in members:
            if node in switch_of:
                message = f"the topology names {node} under {switch_of[node]} and {switch}"
                raise ValueError(message)
            switch_of[node] = switch
    lost = [node for node in nodes if node not in switch_of]
    if topology and lost:
        message = f"the topology does not name {', '.join(lost)}"
        raise ValueError(message)
    return {node: switch_of.get(node, _NO_SWITCH) for node in nodes}


def _search(context: Context) -> Steps:
    """Ask for rounds until the culprits are known."""
    if not context.nodes:
        return
    league = League({node: (node,) for node in context.nodes}, context.switch_of)
    if len(context.nodes) == 1:
        yield from alone(context, league, context.nodes)
    elif len(context.nodes) <= TOURNAMENT:
        for pairs in round_robin(context.nodes):
            yield from play(league, list(pairs), "pairs")
    else:
        yield from play(league, neighbours(context.nodes, context.switch_of), "pairs")
    league.needed = context.needed()
    yield from settle(context, league)
    yield from together(context, league)
    name_nodes(context, league)


def locate(
    nodes: list[str],
    results: list[dict[str, Any]],
    topology: dict[str, list[str]] | None = None,
    relative: float = RELATIVE,
) -> dict[str, Any]:
    """Return the tests to run next, or who is guilty, given all results so far.

    The same input gives the same answer; nothing is kept between calls. A caller appends the results of the tests it
    was asked for to those it has and calls again, until done. Results of tests that were never asked for do no harm.

    Args:
        nodes: names of the nodes.
        results: tests that ran, each with nodes (list), busbw and floor in GB/s (or None), and outcome: ok, wrong
            (sums), crashed, hung, or inconclusive (no evidence against anybody). Where it has a scope, only tests of
            the same are its peers.
        topology: nodes of each switch.
        relative: what share of its peers' median busbw a test must reach, besides its floor.

    Returns:
        done; round (rounds so far, with the next one); stage; tests (lists of nodes without a common node, which may
        run at once); and conclusions, final when done: nodes (node, verdict FAIL or INCONCLUSIVE, kinds, results,
        reason), links (nodes), boundaries (switches, sides), unresolved (nodes, reason). Their results are positions
        in the list of results.

    Raises:
        ValueError: nodes, topology or a result are not as described.
    """
    locator = Locator(nodes, topology, relative)
    left: dict[frozenset[str], deque[int]] = defaultdict(deque)
    for i, result in enumerate(results):
        _check(i, result)
        left[frozenset(result["nodes"])].append(i)
    while locator.question is not None:
        places = [left[frozenset(test)] for test in locator.question.tests]
        if not all(places):
            break
        first = [place.popleft() for place in places]
        locator.tell([results[i] for i in first], first)
    question = locator.question
    missing = [] if question is None else [test for test in question.tests if not left[frozenset(test)]]
    return {
        "done": question is None,
        "round": locator.rounds + (question is not None),
        "stage": question.stage if question else "done",
        "tests": [list(test) for test in missing],
        **locator.found,
    }


def _check(index: int, result: dict[str, Any]) -> None:
    """Refuse a result that is not as described."""
    problem = ""
    if not result.get("nodes"):
        problem = "names no nodes"
    elif result.get("outcome", "ok") not in OUTCOMES:
        problem = f"has the outcome {result['outcome']!r}, which is none of {', '.join(OUTCOMES)}"
    for key in ("busbw", "floor"):
        value = result.get(key)
        number = isinstance(value, (int, float)) and not isinstance(value, bool) and isfinite(value)
        if value is not None and not (number and value >= (0 if key == "busbw" else 1e-9)):
            problem = f"has {key} {value!r}, which is no bandwidth"
    if problem:
        message = f"result {index} {problem}"
        raise ValueError(message)
