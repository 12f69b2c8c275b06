"""Displays the progress of a playbook run."""

from __future__ import annotations

import dataclasses
import os
import shutil
import time
from typing import TYPE_CHECKING

from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.common.hostlist import fold_hosts
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.common.printable import printable

if TYPE_CHECKING:
    from typing import Self, TextIO  # novermin

_ORDER = ("ok", "changed", "skipped", "ignored", "failed", "unreachable")
_MINUTE, _TENTH = 60, 10
_BOLD, _RED, _YELLOW = 1, 31, 33


@dataclasses.dataclass
class TaskState:
    """A running or finished task.

    Attributes:
        name: name with its role as prefix.
        started: start time in seconds of the monotonic clock.
        hosts: number of its hosts, or 0 if unknown.
        counts: hosts by result: ok, changed, skipped, failed, unreachable, ignored.
        messages: messages of the play (debug), each line once.
        diffs: file changes, each with its hosts; empty without --diff.
    """

    name: str
    started: float
    hosts: int = 0
    counts: dict[str, int] = dataclasses.field(default_factory=dict)
    messages: dict[str, None] = dataclasses.field(default_factory=dict)
    diffs: dict[str, list[str]] = dataclasses.field(default_factory=dict)

    @property
    def done(self) -> int:
        """Number of hosts that have finished the task."""
        return sum(self.counts.values())

    @property
    def noteworthy(self) -> bool:
        """Whether the task changed something or failed."""
        return bool(self.messages or self.diffs or self.counts.keys() - {"ok", "skipped"})

    @property
    def skipped(self) -> bool:
        """Whether every host skipped the task."""
        return self.counts.keys() == {"skipped"}


class Display:
    """Prints one line per play and task; on a terminal only for tasks that changed something or failed."""

    def __init__(self, stream: TextIO, *, skipped: bool = False) -> None:
        """Store the output stream, and whether to show tasks that every host skipped."""
        self._stream = stream
        self._skipped = skipped
        self._live = stream.isatty() and os.environ.get("TERM") != "dumb"
        self._task: TaskState | None = None
        self._status = ""
        self._began = time.monotonic()

    def __enter__(self) -> Self:
        """Return the display itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Remove the status line."""
        self._task = None
        self._write("")

    def line(self, text: str, colour: int = 0) -> None:
        """Write a line, above the status line."""
        coloured = self._live and colour and "NO_COLOR" not in os.environ
        self._write(f"\x1b[{colour}m{printable(text)}\x1b[0m\n" if coloured else f"{printable(text)}\n")

    def play(self, name: str, hosts: int) -> None:
        """Show the start of a play."""
        self.line(f"PLAY {name}{_hosts(hosts)}", _BOLD)

    def task(self, task: TaskState) -> None:
        """Set the current task."""
        self._task = task
        self.tick()

    def tick(self) -> None:
        """Update the status line: the task, the finished hosts, the elapsed time."""
        if self._live:
            self._write("")

    def finished(self, task: TaskState, seconds: float) -> None:
        """Show the result of the task."""
        if task.noteworthy or (not self._live and (self._skipped or not task.skipped)):
            bad = task.counts.keys() & {"failed", "unreachable"}
            colour = _RED if bad else 0 if task.messages else _YELLOW
            self.line(f"{duration(seconds):>8}  {task.name}  {_counts(task)}", colour)
        for line in _message_lines(task):
            self.line(line)

    def _write(self, text: str) -> None:
        """Write text above the status line."""
        if self._live:
            clear, status = ("\r\x1b[K" if self._status else ""), ""
            if self._task is not None:
                hosts = f"{self._task.done}/{self._task.hosts or '?'} hosts"
                status = f"{duration(time.monotonic() - self._began):>8}  {printable(self._task.name)}  {hosts}"
            self._status = status[: shutil.get_terminal_size().columns - 1]
            text = f"{clear}{text}{self._status}"
        self._stream.write(text)
        self._stream.flush()


def duration(seconds: float) -> str:
    """Format seconds: 0.4 s, 12 s, 3 min 05 s."""
    if seconds < _TENTH:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    return f"{whole} s" if whole < _MINUTE else f"{whole // _MINUTE} min {whole % _MINUTE:02} s"


def _hosts(number: int) -> str:
    """Format a number of hosts for the end of a line; '' if unknown."""
    return f" ({number} host{'s' if number > 1 else ''})" if number else ""


def _message_lines(task: TaskState) -> list[str]:
    """Return the messages of a task, and its file changes with their hosts."""
    lines = list(task.messages)
    for text, hosts in task.diffs.items():
        lines += [f"{fold_hosts(hosts)}:", *text.splitlines()]
    return [f"{'':8}  {line}" for line in lines]


def _counts(task: TaskState) -> str:
    """Format the results of a task: 'ok=3 changed=1'."""
    return " ".join(f"{name}={task.counts[name]}" for name in _ORDER if name in task.counts)
