# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""The pair stage: the culprit search, which runs if requested or after a failed test of all nodes."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from ...common.hostlist import fold_hosts
from ..nccl_judge import FAIL
from ..planned_tests import planned_test
from ..stage_base import Collective, Counts, Next
from ..start_searches import PAIR, made_searches, named

if TYPE_CHECKING:
    from ..start_searches import Search
    from ..validation_types import Culprit, Options, Planned, State, Unresolved

# The nodes of a search have just run a test, so a longer wait would not bring back an unavailable node.
_WAIT_S = 30


class Pair(Collective):
    """Runs the tests of the culprit search until the faulty nodes are known."""

    name = "pair"
    labels = ("pair", "search")
    counts = Counts.WHILE_SEARCHING
    maps_pairs = True
    rank = 4

    def requested(self, options: Options) -> bool:
        """Return whether a search is possible: it is requested, or a failed test of all nodes may start it."""
        return bool({"pair", "cluster"}.intersection(options["stages"]))

    def budget(self, options: Options) -> list[str]:
        """Return the maximum duration of a requested search."""
        return [f"pair: the culprit search, at most {rounds(options)}"] if self.name in options["stages"] else []

    def next_tests(self, options: Options, state: State, nodes: list[str]) -> Next:
        """Return the next tests of the culprit search; empty if it needs none."""
        lonely = self.name in options["stages"] and len(nodes) < PAIR
        skipped = f"{len(nodes)} node(s) passed the earlier stages" if lonely else ""
        asking = next((item for item in made_searches(options, state, nodes) if not item["answer"]["done"]), None)
        tests = _requested_tests(options, state, asking) if asking else []
        if not tests:
            return Next(skipped=skipped)
        label = "pair" if any(test["stage"] == "pair" for test in tests) else "search"
        return Next(tests, skipped, search=True, wait=_WAIT_S, label=label)

    def held_back(self, options: Options, state: State, nodes: list[str]) -> set[str]:
        """Return the nodes that a search finds faulty or cannot clear."""
        answers = [search["answer"] for search in made_searches(options, state, nodes)]
        out = {item["node"] for answer in answers for item in answer["nodes"]}
        return out | {
            item["nodes"][0] for answer in answers for item in answer["unresolved"] if len(item["nodes"]) == 1
        }

    def blame(self, options: Options, state: State, nodes: list[str]) -> tuple[list[Culprit], list[Unresolved]]:
        """Return the culprits of all searches, including those for all nodes together and for single rails."""
        found: list[Culprit] = []
        unresolved: list[Unresolved] = []
        for search in made_searches(options, state, nodes):
            rail = search["rail"]
            for kind, who, words, item in _named(options, search):
                reason = f"rail {rail} of node {who[0]}: {words}" if kind == "rail" else words
                reason = f"{words} over rail {rail}" if rail and kind != "rail" else reason
                if item["verdict"] == FAIL:
                    names = [state["tests"][place]["name"] for place in item["results"]]
                    found.append({"kind": kind, "nodes": who, "reason": reason, "tests": names, "rail": rail})
                else:
                    unresolved.append({"nodes": who, "reason": reason})
            if not search["explained"]:
                left = search["answer"]["unresolved"]
                unresolved += [{"nodes": item["nodes"], "reason": item["reason"]} for item in left]
        return found, unresolved

    def suspected(self, options: Options, state: State, nodes: list[str]) -> list[Unresolved]:
        """Return the nodes that the searches suspect of a loss too small to separate from noise."""
        made = [search for search in made_searches(options, state, nodes) if not search["explained"]]
        items = [item for search in made for item in search["answer"]["suspected"]]
        found: list[Unresolved] = [{"nodes": item["nodes"], "reason": item["reason"]} for item in items]
        # The losses that noise can hide are known only after the search.
        answers = [
            (search["nodes"], search["answer"]) for search in made if not named(search) and search["answer"]["done"]
        ]
        return found + [{"nodes": who, "reason": answer["hidden"]} for who, answer in answers if answer["hidden"]]

    def searching(self, options: Options, state: State, nodes: list[str]) -> bool:
        """Return whether a search is unfinished."""
        return any(not search["answer"]["done"] for search in made_searches(options, state, nodes))


def rounds(options: Options) -> str:
    """Return the maximum duration of a search as text."""
    return f"{options['locate_rounds']} rounds of at most {options['test_time_limit']} s each"


def _requested_tests(options: Options, state: State, search: Search) -> list[Planned]:
    """Return the tests that a search requests next, each with a unique name."""
    collective, rail = search["collective"], search["rail"]
    suffix = "" if collective == options["collectives"][0] else f"-{collective}"
    suffix += f"-{rail}" if rail else ""
    used = Counter(test["name"].split("_again", 1)[0] for test in state["tests"])
    number = state["search_rounds"] + 1
    tests = []
    settings: dict[str, Any] = {
        "collectives": [collective],
        "rail": rail,
        "repeats": search["answer"]["repeats"],
    }
    for place, members in enumerate(search["answer"]["tests"], start=1):
        kind = {1: "alone", PAIR: "pair"}.get(len(members))
        name = ("-".join([kind, *members]) if kind else f"search-{number}-{place}") + suffix
        again = f"_again{used[name]}" if used[name] else ""
        stage = "pair" if kind == "pair" else "search"
        tests.append(planned_test(options, name + again, stage, members, **settings))
    return tests


def _named(options: Options, search: Search) -> list[tuple[str, list[str], str, dict[str, Any]]]:
    """Return the kind, nodes, description and item of each culprit or suspect of a search."""
    answer = search["answer"]
    kind = "rail" if search["rail"] else "node"
    found: list[tuple[str, list[str], str, dict[str, Any]]] = []
    found += [(kind, [item["node"]], item["reason"], item) for item in answer["nodes"] or answer["fitting"]]
    found += [
        ("link", item["nodes"], _link_words(options, item["nodes"], search["nodes"]), item) for item in answer["links"]
    ]
    return found + [("boundary", *_boundary_words(item["sides"]), item) for item in answer["boundaries"]]


def _link_words(options: Options, nodes: list[str], among: list[str]) -> str:
    """Return the description of a slow link; without other nodes, either NIC may also be the cause."""
    pair = " and ".join(nodes)
    if set(among) <= set(nodes):
        words = f"slow between {pair}, each fast alone: the link or a NIC is faulty; add a third node to find out which"
        failed = [node for node in options["pool"] if node not in nodes and options["last_results"].get(node) is False]
        return f"{words}; {fold_hosts(failed)} did not pass the last validation" if failed else words
    return f"slow between {pair}, each fast with other nodes"


def _boundary_words(sides: list[list[str]]) -> tuple[list[str], str]:
    """Return the nodes of the smaller side, and a description of the boundary."""
    small, large = sorted(sides, key=len)
    words = f"slow between {fold_hosts(list(small))} and {fold_hosts(list(large))}, each fast alone: a switch or uplink"
    return list(small), words
