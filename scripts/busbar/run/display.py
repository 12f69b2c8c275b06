"""Shows a playbook run: live on a terminal, one line per task elsewhere, and a summary at the end."""

from __future__ import annotations

import re
import sys
import time
from typing import TYPE_CHECKING

from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.common.hostlist import fold_hosts
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.common.printable import printable
from ansible_collections.busbar.cluster.plugins.plugin_utils.preflight.nodes import SUDO_REMEDY
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, SpinnerColumn, TextColumn
from rich.text import Text

if TYPE_CHECKING:
    from typing import Self, TextIO

    from rich.progress import Task

    from busbar.run.events import Run, TaskState

__all__ = ["LiveDisplay", "PlainDisplay", "duration", "make_display", "summary"]

SLOWEST = 5
WARNINGS = 5
LEAST_S = 0.1
_ORDER = ("ok", "changed", "skipped", "ignored", "failed", "unreachable")
_MINUTE, _TENTH = 60, 10
# Ansible's become plugin, and sudo itself where it may not ask.
_SUDO_PASSWORD = re.compile(r"(missing|incorrect) \S+ password|a password is required", re.IGNORECASE)


class PlainDisplay:
    """One line per play and task, without control codes."""

    def __init__(self, stream: TextIO, *, skipped: bool = False) -> None:
        """Take the stream to write to, and whether tasks are shown that every host skips."""
        self._stream = stream
        self._skipped = skipped

    def __enter__(self) -> Self:
        """Return the display itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Do nothing: each line is already out."""

    def line(self, text: str) -> None:
        """Write a line at once."""
        print(printable(text), file=self._stream, flush=True)

    def play(self, name: str, hosts: int) -> None:
        """Say which play begins."""
        self.line(f"PLAY {name}{_hosts(hosts)}")

    def task(self, task: TaskState) -> None:
        """Say nothing yet."""

    def host(self, task: TaskState) -> None:
        """Say nothing yet."""

    def finished(self, task: TaskState, seconds: float) -> None:
        """Say how the task went."""
        if self._skipped or not task.skipped:
            self.line(f"{duration(seconds):>8}  {task.name}  {_counts(task)}")
        for line in _said(task):
            self.line(line)


class _Elapsed(ProgressColumn):
    """The time since the whole run began; rich's own column begins anew with each task."""

    def __init__(self) -> None:
        super().__init__()
        self._started = time.monotonic()

    def render(self, task: Task) -> Text:
        """Return the time as text."""
        del task
        return Text(duration(time.monotonic() - self._started), style="progress.elapsed")


class LiveDisplay:
    """A line that moves at the bottom of a terminal; above it stays what changed or went wrong."""

    def __init__(self, console: Console) -> None:
        """Take the terminal to draw on."""
        self._console = console
        self._progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(bar_width=20),
            MofNCompleteColumn(),
            TextColumn("hosts"),
            _Elapsed(),
            console=console,
            transient=True,
            refresh_per_second=5,
        )
        self._bar = self._progress.add_task("starting", total=None)

    def __enter__(self) -> Self:
        """Begin to draw."""
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Give the terminal back as it was."""
        self._progress.stop()

    def line(self, text: str) -> None:
        """Write a line above the moving one."""
        self._console.print(printable(text), markup=False, highlight=False, soft_wrap=True)

    def play(self, name: str, hosts: int) -> None:
        """Say which play begins."""
        self._console.print(f"[bold]{escape(name)}[/bold]{_hosts(hosts)}", highlight=False)

    def task(self, task: TaskState) -> None:
        """Move on to a task."""
        self._progress.reset(self._bar, description=escape(task.name), total=task.hosts or None)

    def host(self, task: TaskState) -> None:
        """Count a host that is done."""
        self._progress.update(self._bar, completed=task.done, total=max(task.hosts, task.done) or None)

    def finished(self, task: TaskState, seconds: float) -> None:
        """Leave a line when the task changed something or failed."""
        if task.noteworthy:
            colour = "red" if task.counts.keys() & {"failed", "unreachable"} else "yellow"
            text = f"{duration(seconds):>8}  {task.name}  {_counts(task)}"
            self._console.print(text, style="" if task.messages else colour, markup=False, highlight=False)
            for line in _said(task):
                self.line(line)


def make_display(*, skipped: bool = False) -> PlainDisplay | LiveDisplay:
    """Return the display that suits the standard output; a plain one shows tasks that are skipped when it shall."""
    stream = sys.stdout
    return LiveDisplay(Console(file=stream)) if stream.isatty() else PlainDisplay(stream, skipped=skipped)


def summary(run: Run) -> list[str]:
    """Return the lines that sum a run up: failures by cause, warnings, the slowest tasks."""
    lines = []
    for failure in run.failures:
        # A preflight speaks of all hosts at once and names them itself.
        hosts = "" if failure.role.endswith("preflight") and failure.kind == "failed" else fold_hosts(failure.hosts)
        lines += [
            "",
            f"{failure.kind.upper()} {hosts}: {failure.task}" if hosts else f"{failure.kind.upper()} {failure.task}",
        ]
        lines += [f"    {line}" for line in failure.message.splitlines()]
        if _SUDO_PASSWORD.search(failure.message) and "--ask-become-pass" not in failure.message:
            lines.append(f"    {SUDO_REMEDY}")
    said = [*([] if run.tasks else run.prelude), *([] if run.failures else run.errors)]
    if said:
        # What somebody else says begins no line, so that nothing can look like one of busbar's own.
        lines += ["", *("\n    ".join(text.splitlines()) for text in said)]
    if run.warnings:
        firsts = dict.fromkeys(text.splitlines()[0] for text in run.warnings)
        lines += ["", *list(firsts)[:WARNINGS]]
        if len(firsts) > WARNINGS or len(firsts) < len(run.warnings):
            lines.append("more in the log")
    if run.tasks:
        lines += ["", "Slowest tasks:"]
        lines += [f"{duration(seconds):>8}  {name}" for name, seconds in run.slowest(SLOWEST) if seconds >= LEAST_S]
        lines.append(f"{run.tasks} tasks in {duration(run.elapsed)}")
    return lines


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
