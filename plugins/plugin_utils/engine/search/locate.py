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

from .decide import DROP, MOST_REPEATS
from .evidence import OUTCOMES, Context, Question
from .readings import Reading, Readings
from .stages import TOURNAMENT, alone, fitting_node, name_nodes, play, settle, together
from .tournament import League, neighbours, round_robin

if TYPE_CHECKING:
    from .evidence import Outcome, Steps

__all__ = ["Locator", "locate"]

_NO_SWITCH = ""
# These stages test all nodes alike; what the others test depends on what was slow.
_DRAWN = frozenset({"pairs", "switches"})
# So often the tests of a round that cannot be told from noise are repeated.
_MOST_AGAIN = 2


class Locator:
    """Runs the search round by round.

    Attributes:
        question: the next round; None when the search is over.
        found: conclusions so far: nodes, links, boundaries, unresolved, suspected.
        rounds: how many were answered.
    """

    def __init__(
        self,
        nodes: list[str],
        topology: dict[str, list[str]] | None = None,
        drop: float = DROP,
        most_repeats: int = MOST_REPEATS,
    ) -> None:
        """Begin a search.

        Args:
            nodes: names of the nodes.
            topology: nodes of each switch; without it all nodes count as nodes of one.
            drop: the smallest share by which a test is to be slower than normal to be called slow.
            most_repeats: how often a test is measured in one round at most.

        Raises:
            ValueError: a node is named twice, or the topology names a node twice or leaves one out.
        """
        switch_of = _switches(nodes, topology or {})
        order = {switch: i for i, switch in enumerate(dict.fromkeys(switch_of[node] for node in nodes))}
        ordered = sorted(nodes, key=lambda node: order[switch_of[node]])
        self._context = Context(ordered, switch_of)
        self._steps = _search(self._context)
        self.found = self._context.found
        self.rounds = 0
        self._told = 0
        self._readings = Readings(drop, most_repeats)
        self._suspected: list[Reading] = []
        self._open: list[Reading] = []
        self._asked: list[Reading] = []
        self._outcomes: list[Outcome] = []
        self._again = 0
        self._ask(next(self._steps, None))

    def _ask(self, question: Question | None) -> None:
        self._asked = []
        if question is not None:
            drawn = question.stage in _DRAWN
            needed = len(question.tests) if question.needed is None else question.needed
            self._asked = [Reading(test, drawn, i < needed) for i, test in enumerate(question.tests)]
        self._open, self._again = self._asked, 0
        self.question = question and Question(question.stage, question.tests, self._readings.repeats())
        if question is None:
            self._name_suspects()

    @property
    def hidden(self) -> str:
        """What the noise of the results so far hides of the drop that is looked for."""
        return self._readings.hidden()

    def tell(self, results: list[dict[str, Any]], first: list[int] | None = None) -> None:
        """Give the results of the question's tests, in their order.

        What cannot be told from noise is asked again before the search goes on.

        Args:
            results: busbw and floor in GB/s, repeats and outcome of each test, as locate takes them.
            first: position of each among all results; by default they are counted on.
        """
        if self.question is None:
            return
        places = first if first is not None else list(range(self._told, self._told + len(results)))
        self._told += len(results)
        self.rounds += 1
        for reading, result, place in zip(self._open, results, places):
            reading.take(result, place)
        self._readings.read(self._asked)
        self._open = self._readings.undecided(self._asked)
        if any(reading.needed for reading in self._open) and self._again < _MOST_AGAIN:
            self._again += 1
            tests = [reading.nodes for reading in self._open]
            self.question = Question(self.question.stage, tests, self._readings.repeats())
            return
        self._suspected += [reading for reading in self._open if reading.needed]
        self._suspected += [reading for reading in self._asked if reading.coarse]
        outcomes = [reading.outcome() for reading in self._asked]
        self._outcomes += outcomes
        self._context.take(outcomes)
        try:
            self._ask(self._steps.send(outcomes))
        except StopIteration:
            self._ask(None)

    def fitting(self) -> list[dict[str, Any]]:
        """Return the node that alone explains what was slow so far, should the search end before its time."""
        decided = [reading.outcome() for reading in self._asked if reading.places and reading.tends]
        return fitting_node(self._context, self._outcomes + decided) if self.question else []

    def _name_suspects(self) -> None:
        """Enter what stayed within the noise, unless its nodes are blamed or were fast in other tests."""
        blamed = {entry["node"] for entry in self.found["nodes"]}
        pairs = {frozenset(entry["nodes"]) for entry in self.found["links"]}
        seen: set[frozenset[str]] = set()
        for reading in self._suspected:
            group = frozenset(reading.nodes)
            slow = reading.verdict is not None and reading.verdict < 0
            if slow and group not in seen and not group & blamed and not any(pair <= group for pair in pairs):
                seen.add(group)
                self.found["suspected"].append(self._readings.suspected(reading))


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
    yield from settle(context, league)
    yield from together(context, league)
    name_nodes(context, league)


def locate(
    nodes: list[str],
    results: list[dict[str, Any]],
    topology: dict[str, list[str]] | None = None,
    drop: float = DROP,
    most_repeats: int = MOST_REPEATS,
) -> dict[str, Any]:
    """Return the tests to run next, or who is guilty, given all results so far.

    The same input gives the same answer; nothing is kept between calls. A caller appends the results of the tests it
    was asked for to those it has and calls again, until done. Results of tests that were never asked for do no harm.

    Args:
        nodes: names of the nodes.
        results: tests that ran, each with nodes (list), busbw and floor in GB/s (or None), and outcome: ok, wrong
            (sums), crashed, hung, or inconclusive (no evidence against anybody). Where it has a scope, only tests of
            the same are its peers. Where it has repeats, these are the busbw of each; busbw is their median. Where it
            has a rounding, each may be off by this share for the digits that were printed.
        topology: nodes of each switch.
        drop: the smallest share by which a test is to be slower than normal to be called slow.
        most_repeats: how often a test is measured in one round at most.

    Returns:
        done; round (rounds so far, with the next one); stage; tests (lists of nodes without a common node, which may
        run at once); repeats (how often each is to be measured); and conclusions, final when done: nodes (node, verdict
        FAIL or INCONCLUSIVE, kinds, results, reason), links (nodes), boundaries (switches, sides), unresolved (nodes,
        reason), suspected (nodes, repeats, reason). Their results are positions in the list of results. While it is not
        done, fitting has the node that alone explains what was slow so far, as nodes has it.

    Raises:
        ValueError: nodes, topology or a result are not as described.
    """
    locator = Locator(nodes, topology, drop, most_repeats)
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
        "repeats": question.repeats if question else 0,
        "hidden": locator.hidden,
        "fitting": locator.fitting(),
        **locator.found,
    }


def _check(index: int, result: dict[str, Any]) -> None:
    """Refuse a result that is not as described."""
    problem = ""
    if not result.get("nodes"):
        problem = "names no nodes"
    elif result.get("outcome", "ok") not in OUTCOMES:
        problem = f"has the outcome {result['outcome']!r}, which is none of {', '.join(OUTCOMES)}"
    repeats = result.get("repeats") or []
    named = [("busbw", result.get("busbw")), ("floor", result.get("floor")), *(("repeats", each) for each in repeats)]
    for key, value in named:
        number = isinstance(value, (int, float)) and not isinstance(value, bool) and isfinite(value)
        if value is not None and not (number and value >= (1e-9 if key == "floor" else 0)):
            problem = f"has {key} {value!r}, which is no bandwidth"
    if problem:
        message = f"result {index} {problem}"
        raise ValueError(message)
