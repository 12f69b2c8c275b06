"""Shows a playbook run: live on a terminal, one line per task elsewhere."""

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

__all__ = ["Display", "TaskState", "duration"]

_ORDER = ("ok", "changed", "skipped", "ignored", "failed", "unreachable")
_MINUTE, _TENTH = 60, 10
_BOLD, _RED, _YELLOW = 1, 31, 33


@dataclasses.dataclass
class TaskState:
    """A task that runs or has run.

    Attributes:
        name: with its role in front.
        started: seconds of the monotonic clock.
        hosts: number of hosts it will run on, 0 when not known.
        counts: hosts by result: ok, changed, skipped, failed, unreachable, ignored.
        messages: what the play itself has to say (debug), each line once.
        diffs: what changes in files, each text with the hosts that it concerns; empty unless --diff asked for it.
    """

    name: str
    started: float
    hosts: int = 0
    counts: dict[str, int] = dataclasses.field(default_factory=dict)
    messages: dict[str, None] = dataclasses.field(default_factory=dict)
    diffs: dict[str, list[str]] = dataclasses.field(default_factory=dict)

    @property
    def done(self) -> int:
        """Number of hosts that are through with it."""
        return sum(self.counts.values())

    @property
    def noteworthy(self) -> bool:
        """Whether it changed anything or went wrong."""
        return bool(self.messages or self.diffs or self.counts.keys() - {"ok", "skipped"})

    @property
    def skipped(self) -> bool:
        """Whether every host skipped it."""
        return self.counts.keys() == {"skipped"}


class Display:
    """One line per play and task; on a terminal a task leaves a line only if it changed something or failed."""

    def __init__(self, stream: TextIO, *, skipped: bool = False) -> None:
        """Take the stream to write to, and whether tasks are shown that every host skips."""
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
        """Show that a play begins."""
        self.line(f"PLAY {name}{_hosts(hosts)}", _BOLD)

    def task(self, task: TaskState) -> None:
        """Take the task that runs now."""
        self._task = task
        self.tick()

    def tick(self) -> None:
        """Renew the status line: the task, the hosts that are done, the time since the start."""
        if self._live:
            self._write("")

    def finished(self, task: TaskState, seconds: float) -> None:
        """Show how the task ended."""
        if task.noteworthy or (not self._live and (self._skipped or not task.skipped)):
            bad = task.counts.keys() & {"failed", "unreachable"}
            colour = _RED if bad else 0 if task.messages else _YELLOW
            self.line(f"{duration(seconds):>8}  {task.name}  {_counts(task)}", colour)
        for line in _said(task):
            self.line(line)

    def _write(self, text: str) -> None:
        """Write text in the place of the status line, and that line below."""
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
    """Return seconds as a person would say them: 0.4 s, 12 s, 3 min 05 s."""
    if seconds < _TENTH:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    return f"{whole} s" if whole < _MINUTE else f"{whole // _MINUTE} min {whole % _MINUTE:02} s"


def _hosts(number: int) -> str:
    """Return a number of hosts for the end of a line, '' for unknown."""
    return f" ({number} host{'s' if number > 1 else ''})" if number else ""


def _said(task: TaskState) -> list[str]:
    """Return what a task has to show: its messages, and the changes of files with the hosts that they concern."""
    lines = list(task.messages)
    for text, hosts in task.diffs.items():
        lines += [f"{fold_hosts(hosts)}:", *text.splitlines()]
    return [f"{'':8}  {line}" for line in lines]


def _counts(task: TaskState) -> str:
    """Return how the task went: 'ok=3 changed=1'."""
    return " ".join(f"{name}={task.counts[name]}" for name in _ORDER if name in task.counts)
