# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""The interface between a validation and a cluster: run jobs, fetch their output, report progress."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

# Prefix of the message about an output that exceeds the size limit.
TOO_LONG = "the output is longer than "


class Interrupted(BaseException):
    """The validation was interrupted. Handlers of Exception must not catch it."""


class Output(NamedTuple):
    """The output of a test: its local file name, and the node and path where the job wrote it."""

    name: str
    host: str
    path: str


class Transport(Protocol):
    """Runs the jobs of a validation on a cluster.

    Attributes:
        controller: name of the host that answers requests, for messages.
        share: whether to test nodes while other jobs run on them.
        home: home directory of the user who runs the jobs.
    """

    controller: str
    share: bool
    home: str

    def request(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """Submit, follow or cancel jobs.

        Args:
            arguments: arguments of the slurm_tests module.

        Returns:
            the result of the slurm_tests module; only msg if the request failed.
        """

    def fetch(self, outputs: list[Output], seconds: float) -> dict[str, str]:
        """Save outputs and delete them on their nodes; return the error for each by name, empty on success."""

    def launch_error(self, host: str, job_id: str) -> str:
        """Return why slurmd on a host could not launch a job; empty if its log has no such error."""

    def read(self, name: str) -> str:
        """Return the text of a saved output.

        Raises:
            OSError: the file cannot be read.
            ValueError: the text is too long.
        """

    def report_progress(self, line: str) -> None:
        """Show a line immediately."""

    def now(self) -> float:
        """Return the time, in seconds since 1970."""

    def sleep(self, seconds: float) -> None:
        """Wait."""

    def uninterrupted(self) -> AbstractContextManager[None]:
        """Defer interruptions until the end of the block."""
