# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""The node stage: tests each node alone, all nodes at the same time; first collectives, then the other checks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..nccl_judge import FAIL, NO_FLOOR, PASS
from ..node_checks import COLLECTIVE, check_problems, collectives, failed_nodes, kind_of, next_checks
from ..planned_tests import planned_test
from ..result_presentation import CODE_WORDS, CODES
from ..stage_base import Collective, Next

if TYPE_CHECKING:
    from ..result_presentation import Metric, ShownTest
    from ..validation_types import Culprit, Options, Planned, State, Unresolved

_PAIR = 2
_GB = 1e9


class Node(Collective):
    """Tests each node alone; a node that fails is excluded from the later stages."""

    name = "node"
    rank = 3

    def problems(self, options: Options) -> list[str]:
        """Return the problems with the requested checks."""
        return check_problems(options)

    def budget(self, options: Options) -> list[str]:
        """Return the number of nodes and the tests they run."""
        words = f"node: {len(options['nodes'])} test(s) of one node each, at most {options['test_time_limit']} s"
        for kind in dict.fromkeys(options["node_checks"]):
            words += f", then {kind}, at most {options['check_jobs'][kind]['time_limit']} s"
        return [words]

    def next_tests(self, options: Options, state: State, nodes: list[str]) -> Next:
        """Return the collective tests of each node, then the next kind of check, also for nodes that failed a test."""
        del nodes
        tests = [] if self.tests_of(state) else _alone(options)
        here = [node for node in options["nodes"] if node not in state["left_out"]]
        return Next(tests or next_checks(options, state["tests"], here))

    def held_back(self, options: Options, state: State, nodes: list[str]) -> set[str]:
        """Return the nodes that failed a check or did not pass the single-node collectives.

        A node whose result is inconclusive only because no floor is known takes part in the later stages.
        """
        del nodes
        requested = [test["job"]["nodes"][0] for test in _alone(options)] if self.requested(options) else []
        alone: dict[str, set[str]] = {}
        for test in collectives(self.tests_of(state)):
            for node in test["nodes"]:
                alone.setdefault(node, set()).add(PASS if test["reason"].startswith(NO_FLOOR) else test["verdict"])
        passed = {node for node, verdicts in alone.items() if verdicts == {PASS}}
        return (set(requested) - passed) | failed_nodes(self.tests_of(state))

    def blame(self, options: Options, state: State, nodes: list[str]) -> tuple[list[Culprit], list[Unresolved]]:
        """Return the nodes that failed a test or check alone."""
        del options, nodes
        return [
            {
                "kind": "node",
                "nodes": test["nodes"],
                "reason": f"{test['name']}: {test['reason']}",
                "tests": [test["name"]],
                "rail": "",
            }
            for test in self.tests_of(state)
            if test["verdict"] == FAIL
        ], []

    def metrics(self, test: ShownTest) -> list[Metric]:
        """Return the verdict and the slowest GPU pair of a check; collectives have the same metrics in all stages."""
        if kind_of(test) == COLLECTIVE:
            return []
        found: list[Metric] = []
        for node in dict.fromkeys([*test["nodes"], *test["partners"]]):
            labels = {"node": node, "check": test["kind"], "hardware": test["hardware"]}
            words = f"Verdict of a check of a single node: {CODE_WORDS}."
            found.append({"name": "check_verdict", "help": words, "labels": labels, "value": CODES[test["verdict"]]})
            lowest = test["lowest_gbs"]
            found.append(
                {
                    "name": "check_slowest_pair_bytes_per_second",
                    "help": "Bandwidth of the slowest pair of GPUs of a node with direct access.",
                    "labels": labels,
                    "value": None if lowest is None else lowest * _GB,
                }
            )
        return found


def _alone(options: Options) -> list[Planned]:
    """Return the tests of each node alone; a node with one GPU has none, because a single rank sends nothing."""
    tests = [planned_test(options, f"node-{node}", "node", [node]) for node in options["nodes"]]
    return [test for test in tests if test["ranks_per_node"] >= _PAIR]
