# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""The stage nic: all nodes together, and nothing but their NICs between any two GPUs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..collective import Collective
from ..stage import Counts, Next
from ..tests import candidates, planned_test

if TYPE_CHECKING:
    from ..model import Options, State

__all__ = ["Nic"]

_COLLECTIVE = "all_reduce"


class Nic(Collective):
    """An all-reduce without NVLink, PCIe between GPUs and shared memory: what the NICs do by themselves."""

    name = "nic"
    counts = Counts.UNLESS_IT_PASSED_TOO
    infers = False
    rank = 4

    def problems(self, options: Options) -> list[str]:
        """Return why there is no such way."""
        if not self.asked(options) or options["backend"] == "nccl":
            return []
        return ["validation_stages: the stage nic turns off NCCL's other ways and needs validation_backend nccl"]

    def budget(self, options: Options) -> list[str]:
        """Return how long it may take."""
        return [f"nic: all together over their NICs alone, at most {options['test_time_limit']} s"]

    def next_tests(self, options: Options, state: State, nodes: list[str]) -> Next:
        """Return the one test, unless it has been."""
        if self.tests_of(state):
            return Next()
        if not nodes:
            return Next(skipped="no node passed what came before")
        partners = min(options["partners"], len(candidates(options, nodes)))
        return Next([planned_test(options, "nic", "nic", nodes, partners, collectives=[_COLLECTIVE], nic_alone=True)])
