# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""Runs a validation step by step: plans tests, has them run, gathers what they print, judges it, and plans the next.

What happens on hosts is done by somebody else's hands, so that everything here can be tried without any.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ....module_utils.slurm.jobs import CUT_BY_LIMIT
from .inputs import typed
from .model import FIRST
from .round import Round
from .stages import budget, next_step

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .hands import Asked, Hands
    from .model import State

__all__ = ["Loop"]


class Loop:
    """A validation that goes on.

    Attributes:
        state: what is known so far.
        stopped: why it ended before its time; empty when it did not.
        unended: numbers of jobs that could not be cancelled.
        reserved: whether a reservation was made for the tests.
        unrestored: nodes that were resumed for a test and could not be drained again, each with what is to be done.
    """

    def __init__(self, options: Mapping[str, Any], asked: Asked, hands: Hands) -> None:
        """Take what is asked for, as inputs.typed takes it, and who does it.

        Raises:
            ValueError: the options are not right.
        """
        self.options = typed(options)
        self.asked = asked
        self.hands = hands
        self.state: State = FIRST
        self.stopped = ""
        self.unended: list[str] = []
        self.reserved = False
        self.unrestored: dict[str, str] = {}

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

    def reservation(self) -> dict[str, Any] | None:
        """Return the reservation of the tests as the module slurm_tests takes it, None for none."""
        name = self.options.get("reservation") or ""
        if not name and not self.options.get("out_of_service"):
            return None
        return {"name": name, "fresh": not self.reserved}

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

    def left(self) -> float | None:
        """Return how many seconds are left for tests, None when there is no limit."""
        total = self.options["time_limit"]
        return max(0.0, self.options["began"] + total - self.hands.now()) if total else None
