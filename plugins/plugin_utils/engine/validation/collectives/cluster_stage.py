# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""The stages that run collectives on all nodes: over all rails, over each rail separately, and over the NICs only."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...common.option_names_in_messages import option
from ..planned_tests import candidates, planned_test
from ..single_rail_profiles import rail_problems
from ..stage_base import Collective, Counts, Next
from ..start_searches import PAIR, member_nodes, search_result
from .culprit_search_stage import rounds

if TYPE_CHECKING:
    from ..validation_types import Options, State

_NIC_COLLECTIVE = "all_reduce"


class Cluster(Collective):
    """Tests all nodes together; the culprit search follows a test that is slow, wrong, crashes or hangs."""

    name = "cluster"
    counts = Counts.UNLESS_IT_PASSED_TOO
    rank = 0

    def budget(self, options: Options) -> list[str]:
        """Return the maximum duration, including a possible search."""
        words = [f"cluster: all nodes together, at most {options['test_time_limit']} s"]
        if "pair" not in options["stages"]:
            words.append(f"if that fails, the culprit search, at most {rounds(options)}")
        return words

    def next_tests(self, options: Options, state: State, nodes: list[str]) -> Next:
        """Return the test of all nodes together, unless it has already run."""
        if self.tests_of(state):
            return Next()
        partners = min(options["partners"], len(candidates(options, nodes)))
        lonely = len(nodes) + partners < PAIR and "node" in options["stages"]
        if nodes and not lonely:
            return Next([planned_test(options, "cluster", "cluster", nodes, partners)])
        one = len(options["nodes"]) == 1 and bool(nodes)
        return Next(skipped="" if one else f"{len(nodes)} node(s) passed the earlier stages")


class Rail(Collective):
    """Tests the nodes of the cluster stage over one rail at a time."""

    name = "rail"
    choice = False
    counts = Counts.UNLESS_IT_PASSED_TOO
    rank = 5

    def requested(self, options: Options) -> bool:
        """Return whether rails are configured."""
        return bool(options["rails"])

    def problems(self, options: Options) -> list[str]:
        """Return the problems with the rail names."""
        return rail_problems(options)

    def budget(self, options: Options) -> list[str]:
        """Return the number of rails and the maximum duration for each."""
        each = f"at most {options['test_time_limit']} s"
        return [f"then all nodes together over each of {len(options['rails'])} rail(s), {each}"]

    def next_tests(self, options: Options, state: State, nodes: list[str]) -> Next:
        """Return the test over the next rail, with the partners of the cluster test, if the cluster test has passed."""
        whole = next((test for test in state["tests"] if test["stage"] == "cluster"), None)
        if whole is None or search_result(whole)["outcome"] != "ok":
            return Next()
        out = set(options["nodes"]) - set(nodes)
        members = [node for node in member_nodes(whole) if node not in out]
        done = {test["rail"] for test in self.tests_of(state)}
        rail = next((rail for rail in options["rails"] if rail not in done), None)
        if rail is None or len(members) < PAIR:
            return Next()
        first = options["collectives"][:1]
        return Next([planned_test(options, f"rail-{rail}", "rail", members, collectives=first, rail=rail)])


class Nic(Collective):
    """Measures only the NICs, with an all-reduce that does not use NVLink, PCIe peer-to-peer or shared memory."""

    name = "nic"
    counts = Counts.UNLESS_IT_PASSED_TOO
    infers = False
    rank = 4

    def problems(self, options: Options) -> list[str]:
        """Return why NCCL cannot be restricted to the NICs."""
        if not self.requested(options) or options["backend"] == "nccl":
            return []
        return [f"{option('stages')}: the stage nic requires {option('backend')}=nccl, to disable other transports"]

    def budget(self, options: Options) -> list[str]:
        """Return the maximum duration."""
        return [f"nic: all nodes together over the NICs only, at most {options['test_time_limit']} s"]

    def next_tests(self, options: Options, state: State, nodes: list[str]) -> Next:
        """Return the stage's only test, unless it has already run."""
        if self.tests_of(state):
            return Next()
        if not nodes:
            return Next(skipped="no node passed the earlier stages")
        partners = min(options["partners"], len(candidates(options, nodes)))
        return Next(
            [planned_test(options, "nic", "nic", nodes, partners, collectives=[_NIC_COLLECTIVE], nic_alone=True)]
        )
