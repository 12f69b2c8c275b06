# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""Runs a validation step by step: plans tests, runs them, judges their output, and plans the next.

Everything on hosts is done through `Hands`, so that the loop can be tested without any host.
"""

from __future__ import annotations

from ....module_utils.slurm.jobs import CUT_BY_LIMIT
from .round import Progress, Round
from .stages import budget, next_step

__all__ = ["Loop"]


class Loop(Progress):
    """A running validation."""

    def run(self) -> None:
        """Run all tests.

        Raises:
            Interrupted: somebody ended it; what was known by then is in the state.
        """
        self.hands.say(budget(self.options))
        while True:
            step = next_step(self.options, self.state, self.hands.now())
            if not step["tests"]:
                self.stopped = step["stopped"] or self._cut_by_limit()
                return
            Round(self, step).run()

    def _cut_by_limit(self) -> str:
        """Return which tests the limit has cut, though it kept none from beginning; an empty text for none."""
        cut = [test["name"] for test in self.state["tests"] if test["job"]["problem"].startswith(CUT_BY_LIMIT)]
        return f"the time of {self.options['time_limit']} s for all tests was over in {', '.join(cut)}" if cut else ""

    def release(self, seconds: float) -> str:
        """Have the reservation deleted that was made for the tests; returns why it is still there.

        Args:
            seconds: how long to wait for jobs that are ending in it.
        """
        if not self.reserved:
            return ""
        asked = {"state": "released", "user": self.options["user"], "wait": int(seconds)}
        result = self.hands.ask(asked | {"reservation": self.reservation()})
        if result.get("answered") is not True:
            return f"the reservation of the tests is left: {result.get('msg') or 'slurmctld does not answer'}"
        given = result.get("problems")
        return "; ".join(str(problem) for problem in given) if isinstance(given, list) else ""
