"""Shows several runs that go on at once on one display."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from busbar.run.events import Display, TaskState

__all__ = ["Shown"]


class Shown:
    """The display of one slice: plays are shown once, its tasks under its name."""

    def __init__(self, display: Display, name: str, *, first: bool) -> None:
        """Take the display of all, and whether this slice is the one whose every task is shown."""
        self._display, self._name, self._first = display, name, first

    def play(self, name: str, hosts: int) -> None:
        """Show a play when the first slice begins it."""
        if self._first:
            self._display.play(name, hosts)

    def task(self, task: TaskState) -> None:
        """Move on to a task."""
        if self._first:
            self._display.task(self._named(task))

    def host(self, task: TaskState) -> None:
        """Count a host that is done."""
        if self._first:
            self._display.host(self._named(task))

    def finished(self, task: TaskState, seconds: float) -> None:
        """Show a task; of the other slices only what is worth a line."""
        if self._first or task.noteworthy:
            self._display.finished(self._named(task), seconds)

    def line(self, text: str) -> None:
        """Say something at once."""
        self._display.line(text)

    def _named(self, task: TaskState) -> TaskState:
        return dataclasses.replace(task, name=f"{self._name}: {task.name}")
