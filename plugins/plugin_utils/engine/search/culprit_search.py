# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""The culprit search: select the next tests from the results so far, or report the culprits.

1. Pairs: up to 16 nodes are tested in all pairs, larger sets in pairs of neighbours.
2. Slow nodes are tested with known-good nodes of the same switch, and blamed if they fail with two of these, or alone.
3. All other nodes are tested together.
4. If these are slow together, each switch and then pairs of switches are tested, and slow sets are halved until a link
   between two nodes or a boundary between two sets is left.

Idle nodes are tested in the same rounds, so that several faults are found in parallel.
"""

from __future__ import annotations

from collections import defaultdict, deque
from math import isfinite
from typing import TYPE_CHECKING, Any

from .fast_or_slow import Reading, Readings
from .search_data import OUTCOMES, Context, Question
from .search_stages import TOURNAMENT, alone, fitting_node, judge_players, name_nodes, play, together
from .sequential_test import DROP, MOST_REPEATS
from .tournament import League, neighbours, round_robin

if TYPE_CHECKING:
    from .search_data import Outcome, Steps

_NO_SWITCH = ""
# Stages that test all nodes in the same way; the tests of other stages depend on earlier slow results.
_DRAWN = frozenset({"pairs", "switches"})
# Maximum number of times that the undecided tests of a round are repeated.
_MOST_AGAIN = 2


class Locator:
    """Runs the search round by round.

    Attributes:
        question: the next round; None if the search is finished.
        found: conclusions so far: nodes, links, boundaries, unresolved, suspected.
        rounds: number of answered rounds.
    """

    def __init__(
        self,
        nodes: list[str],
        topology: dict[str, list[str]] | None = None,
        drop: float = DROP,
        most_repeats: int = MOST_REPEATS,
    ) -> None:
        """Start a search.

        Args:
            nodes: names of the nodes.
            topology: nodes of each switch; by default all nodes count as being on one switch.
            drop: smallest share below normal that counts as slow.
            most_repeats: maximum number of measurements of a test in one round.

        Raises:
            ValueError: a node is listed twice, or the topology lists a node twice or omits one.
        """
        switch_of = _switches(nodes, topology or {})
        order = {switch: i for i, switch in enumerate(dict.fromkeys(switch_of[node] for node in nodes))}
        ordered = sorted(nodes, key=lambda node: order[switch_of[node]])
        self._context = Context(ordered, switch_of)
        self._steps = _search(self._context)
        self.found = self._context.found
        self.rounds = 0
        self._evidence_read = 0
        self._readings = Readings(drop, most_repeats)
        self._suspected: list[Reading] = []
        self._open: list[Reading] = []
        self._pending: list[Reading] = []
        self._outcomes: list[Outcome] = []
        self._again = 0
        self._ask(next(self._steps, None))

    def _ask(self, question: Question | None) -> None:
        self._pending = []
        if question is not None:
            drawn = question.stage in _DRAWN
            needed = len(question.tests) if question.needed is None else question.needed
            self._pending = [Reading(test, drawn, i < needed) for i, test in enumerate(question.tests)]
        self._open, self._again = self._pending, 0
        self.question = question and Question(question.stage, question.tests, self._readings.repeats())
        if question is None:
            self._name_suspects()

    @property
    def hidden(self) -> str:
        """Message about the losses that the noise of the results so far hides; empty if there are none."""
        return self._readings.hidden()

    def tell(self, results: list[dict[str, Any]], first: list[int] | None = None) -> None:
        """Add the results of the requested tests, in order.

        Undecided tests are repeated before the search continues.

        Args:
            results: busbw and floor in GB/s, repeats and outcome of each test, in the format of `locate`.
            first: position of each result among all results; by default they are numbered consecutively.
        """
        if self.question is None:
            return
        places = first if first is not None else list(range(self._evidence_read, self._evidence_read + len(results)))
        self._evidence_read += len(results)
        self.rounds += 1
        for reading, result, place in zip(self._open, results, places):
            reading.take(result, place)
        self._readings.read(self._pending)
        self._open = self._readings.undecided(self._pending)
        if any(reading.needed for reading in self._open) and self._again < _MOST_AGAIN:
            self._again += 1
            tests = [reading.nodes for reading in self._open]
            self.question = Question(self.question.stage, tests, self._readings.repeats())
            return
        self._suspected += [reading for reading in self._open if reading.needed]
        self._suspected += [reading for reading in self._pending if reading.coarse]
        outcomes = [reading.outcome() for reading in self._pending]
        self._outcomes += outcomes
        self._context.take(outcomes)
        try:
            self._ask(self._steps.send(outcomes))
        except StopIteration:
            self._ask(None)

    def fitting(self) -> list[dict[str, Any]]:
        """Return the single node that explains all slow results so far, for a search that ends early."""
        decided = [reading.outcome() for reading in self._pending if reading.places and reading.tends]
        return fitting_node(self._context, self._outcomes + decided) if self.question else []

    def _name_suspects(self) -> None:
        """Record undecided tests as suspected, unless their nodes are blamed or were fast in other tests."""
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
        message = f"nodes listed twice: {', '.join(twice)}"
        raise ValueError(message)
    switch_of: dict[str, str] = {}
    for switch, members in topology.items():
        for node in members:
            if node in switch_of:
                message = f"the topology lists {node} under {switch_of[node]} and {switch}"
                raise ValueError(message)
            switch_of[node] = switch
    lost = [node for node in nodes if node not in switch_of]
    if topology and lost:
        message = f"the topology does not list {', '.join(lost)}"
        raise ValueError(message)
    return {node: switch_of.get(node, _NO_SWITCH) for node in nodes}


def _search(context: Context) -> Steps:
    """Yield rounds of tests until the culprits are known."""
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
    yield from judge_players(context, league)
    yield from together(context, league)
    name_nodes(context, league)


def locate(
    nodes: list[str],
    results: list[dict[str, Any]],
    topology: dict[str, list[str]] | None = None,
    drop: float = DROP,
    most_repeats: int = MOST_REPEATS,
) -> dict[str, Any]:
    """Return the tests to run next, or the culprits, given all results so far.

    The function has no state. The caller appends the results of the requested tests to its list and calls the function
    again until done. The list may contain results of other tests.

    Args:
        nodes: names of the nodes.
        results: finished tests, each with nodes (list), busbw and floor in GB/s (or None), and outcome: ok, wrong
            (results), crashed, hung, or inconclusive (no evidence). Optional keys: scope (tests are compared only with
            others of the same scope), repeats (busbw of each repeat, busbw is their median), and rounding (rounding
            error of a value, as a fraction).
        topology: nodes of each switch.
        drop: smallest share below normal that counts as slow.
        most_repeats: maximum number of measurements of a test in one round.

    Returns:
        done; round (number of rounds so far, including the next); stage; tests (disjoint lists of nodes, which can run
        at the same time); repeats (measurements of each test); and the conclusions, which are final when done: nodes
        (node, verdict FAIL or INCONCLUSIVE, kinds, results, reason), links (nodes), boundaries (switches, sides),
        unresolved (nodes, reason), suspected (nodes, repeats, reason). Their results are positions in the list of
        results. Until done, fitting contains the node that explains all slow results so far, if there is one.

    Raises:
        ValueError: nodes, topology or a result are not in this format.
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
    """Raise ValueError if a result is malformed."""
    problem = ""
    if not result.get("nodes"):
        problem = "has no nodes"
    elif result.get("outcome", "ok") not in OUTCOMES:
        problem = f"has the outcome {result['outcome']!r} (expected one of {', '.join(OUTCOMES)})"
    repeats = result.get("repeats") or []
    named = [("busbw", result.get("busbw")), ("floor", result.get("floor")), *(("repeats", each) for each in repeats)]
    for key, value in named:
        number = isinstance(value, (int, float)) and not isinstance(value, bool) and isfinite(value)
        if value is not None and not (number and value >= (1e-9 if key == "floor" else 0)):
            problem = f"has the {key} {value!r} (expected a bandwidth in GB/s)"
    if problem:
        message = f"result {index} {problem}"
        raise ValueError(message)
