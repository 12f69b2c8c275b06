# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""What the loop of a validation has others do: on hosts, with files, and on the screen."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

__all__ = ["TOO_LONG", "Asked", "Hands", "Interrupted", "Output"]

# How it is said that an output is there, and is more than anybody wants.
TOO_LONG = "the output is longer than "


class Interrupted(BaseException):
    """Somebody ended the validation. It passes everything that catches exceptions on its way."""


class Output(NamedTuple):
    """Where the output of a test lies: a path on a node, and the name of its file here."""

    name: str
    host: str
    path: str


class Asked(NamedTuple):
    """How the tests are run.

    Attributes:
        controller: its name, for messages.
        share: whether nodes are tested on which other jobs run.
        home: of the validation's user.
    """

    controller: str
    share: bool
    home: str


class Hands(Protocol):
    """What the loop has done for it on hosts and on the screen."""

    def ask(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """Run the module slurm_tests on the controller; a result with msg alone when that is not possible."""

    def fetch(self, outputs: list[Output], seconds: float) -> dict[str, str]:
        """Save outputs as files and remove them on their nodes; returns why one could not be, by name."""

    def launch_error(self, host: str, job_id: str) -> str:
        """Return why slurmd on a host could not launch a job; empty if its log has no such error."""

    def text(self, name: str) -> str:
        """Return what a saved output tells.

        Raises:
            OSError: there is none.
            ValueError: it is too long.
        """

    def say(self, line: str) -> None:
        """Show a line at once."""

    def now(self) -> float:
        """Return the time, in seconds since 1970."""

    def sleep(self, seconds: float) -> None:
        """Let time go by."""

    def unbroken(self) -> AbstractContextManager[None]:
        """Keep an interruption back until what is in it has been done."""
