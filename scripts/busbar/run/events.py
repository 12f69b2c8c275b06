"""Derives the state and the summary of a playbook run from the events of ansible-runner."""

from __future__ import annotations

import dataclasses
import os
import re
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ansible_collections.busbar.cluster.plugins.module_utils.common.problems import is_refused
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.common.hostlist import fold_hosts
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.common.printable import (
    printable,
    printable_lines,
)
from ansible_collections.busbar.cluster.plugins.plugin_utils.preflight.nodes import SUDO_REMEDY

from busbar.run.display import Display, TaskState, duration

if TYPE_CHECKING:
    from collections.abc import Callable

Event = dict[str, Any]
_RESULTS = {
    "runner_on_ok": "ok",
    "runner_on_skipped": "skipped",
    "runner_on_failed": "failed",
    "runner_on_unreachable": "unreachable",
}
_UNINFORMATIVE = frozenset({"", "non-zero return code", "MODULE FAILURE", "One or more items failed"})
_STATS = ("failures", "dark", "changed", "ok", "skipped", "rescued", "ignored")
_LONGEST = 4000
_LONGEST_DIFF = 20_000
# Prefixes of progress lines that actions print before the task ends.
_PROGRESS_PREFIXES = ("WAITING ", "VALIDATION ")
_MAX_MESSAGES = 20
_MAX_DIFFS = 50
SLOWEST = 5
WARNINGS = 5
MIN_SECONDS = 0.1
# Messages from Ansible's become plugin, and from sudo if it cannot prompt.
_SUDO_PASSWORD = re.compile(r"(missing|incorrect) \S+ password|a password is required", re.IGNORECASE)


@dataclasses.dataclass
class Failure:
    """A failure with all affected hosts.

    Attributes:
        task: name of the task.
        message: error message.
        role: role of the task, or ''.
        action: module of the task.
        kind: `failed` or `unreachable`.
        refused: whether the result attributes the failure to the input.
        hosts: names, in the order of their failures.
    """

    task: str
    message: str
    role: str
    action: str
    kind: str
    refused: bool = False
    hosts: list[str] = dataclasses.field(default_factory=list)


class Run:
    """The state of a run, derived from its events; it stores only counts and failures, to bound the memory use."""

    def __init__(
        self,
        display: Display,
        hosts_of: Callable[[str], int],
        clock: Callable[[], float] = time.monotonic,
        log: Path = Path(os.devnull),
    ):
        """Store the display, a function that counts the hosts of a pattern (0: unknown), the clock and the log."""
        self._display = display
        self._hosts_of = hosts_of
        self._clock = clock
        self._play_hosts = 0
        self._failures: dict[tuple[str, str], Failure] = {}
        # Failed loop items by host, because newer releases of Ansible do not include them in the result of the loop.
        self._failed_items: dict[str, list[dict[str, Any]]] = {}
        self.started = clock()
        self.task: TaskState | None = None
        self.tasks = 0
        self.seconds: dict[str, float] = {}
        self.errors: list[str] = []
        self.prelude: list[str] = []
        self.warnings: dict[str, None] = {}
        self.pid: int | None = None
        self.log = log
        self.returned = 0
        self.interrupted = False
        self.log_problem = ""
        self.recap = ""
        self.stats: dict[str, dict[str, int]] = {}
        self.custom: dict[str, Any] = {}

    @property
    def elapsed(self) -> float:
        """Seconds since the start."""
        return self._clock() - self.started

    @property
    def failures(self) -> list[Failure]:
        """The failures of hosts that were not rescued."""
        bad = {*self.stats.get("failures", {}), *self.stats.get("dark", {})}
        if not self.stats:
            return list(self._failures.values())
        return [found for found in self._failures.values() if bad & set(found.hosts)]

    def handle(self, event: Event) -> None:
        """Process an event."""
        kind, data = str(event.get("event", "")), event.get("event_data") or {}
        if self.pid is None and isinstance(event.get("pid"), int):
            self.pid = event["pid"]
        if kind == "playbook_on_play_start":
            self._end_task()
            self._play_hosts = self._hosts_of(str(data.get("pattern", "")))
            self._display.play(_one_line(data.get("name") or data.get("pattern", "")), self._play_hosts)
        elif kind in {"playbook_on_task_start", "playbook_on_handler_task_start"}:
            self._start_task(data)
        elif kind == "runner_on_file_diff":
            self._diff(data, str(event.get("stdout", "")))
        elif kind == "runner_item_on_failed":
            self._failed_items.setdefault(str(data.get("host", "")), []).append(
                {**(data.get("res") or {}), "failed": True}
            )
        elif kind in _RESULTS:
            self._result(_RESULTS[kind], data, str(event.get("stdout", "")))
        elif kind == "playbook_on_stats":
            self._end_task()
            self._statistics(data, str(event.get("stdout", "")))
        elif kind in {"error", "warning", "verbose"}:
            self._message(kind, str(event.get("stdout", "")))

    def tick(self) -> None:
        """Update the elapsed time on the display."""
        self._display.tick()

    def close(self) -> None:
        """End the task that was running when the run was interrupted."""
        self._end_task()

    def _start_task(self, data: dict[str, Any]) -> None:
        """Process the start of a task."""
        self._end_task()
        self._failed_items.clear()
        self.task = TaskState(_task_name(data), self._clock(), self._play_hosts)
        self._display.task(self.task)

    def _end_task(self) -> None:
        """Record the duration of the current task."""
        task, self.task = self.task, None
        # Do not show tasks without hosts, such as a flush of handlers.
        if task is None or not task.counts:
            return
        self.tasks += 1
        seconds = self._clock() - task.started
        self.seconds[task.name] = self.seconds.get(task.name, 0.0) + seconds
        self._display.finished(task, seconds)

    def _result(self, result: str, data: dict[str, Any], stdout: str) -> None:
        """Process the result of a task on a host."""
        given = data.get("res")
        found: dict[str, Any] = given if isinstance(given, dict) else {}
        if items := self._failed_items.pop(str(data.get("host", "")), []):
            found = {**found, "results": items}
        if self.task is None:
            self.task = TaskState(_task_name(data), self._clock(), self._play_hosts)
        if result == "failed" and data.get("ignore_errors"):
            result = "ignored"
        elif result == "ok" and (found.get("changed") or ("censored" in found and "changed: [" in stdout)):
            result = "changed"
        self.task.counts[result] = self.task.counts.get(result, 0) + 1
        if result == "ok" and data.get("resolved_action") == "ansible.builtin.debug":
            self._say(found.get("msg"))
        if result in {"failed", "unreachable"}:
            self._failure(result, data, failure_message(found) or stdout[:_LONGEST], refused=is_refused(found))
        self._display.tick()

    def _say(self, message: object) -> None:
        """Record a message of the play."""
        texts = message if isinstance(message, list) else [message or ""]
        if self.task is None:
            return
        lines = dict.fromkeys(line for text in texts for line in printable_lines(str(text)[:_LONGEST]))
        if len(self.task.messages) < _MAX_MESSAGES:
            self.task.messages.update(lines)
        elif not lines.keys() <= self.task.messages.keys():
            self.task.messages.setdefault("… see the log for the other hosts")

    def _diff(self, data: dict[str, Any], stdout: str) -> None:
        """Record the file changes of a host from Ansible's output, which respects no_log and diff: false."""
        text = "\n".join(printable_lines(stdout))
        if not text:
            return
        if self.task is None:
            self.task = TaskState(_task_name(data), self._clock(), self._play_hosts)
        if len(text) > _LONGEST_DIFF:
            text = f"{text[:_LONGEST_DIFF]}\n… see the log for the rest"
        if text in self.task.diffs or len(self.task.diffs) < _MAX_DIFFS:
            self.task.diffs.setdefault(text, []).append(_one_line(data.get("host", "")))

    def _failure(self, kind: str, data: dict[str, Any], message: str, *, refused: bool) -> None:
        """Add a host to the failure with the same cause."""
        task, message = _task_name(data), "\n".join(printable_lines(message))
        failure = self._failures.setdefault(
            (task, message),
            Failure(task, message, str(data.get("role") or ""), str(data.get("resolved_action") or ""), kind, refused),
        )
        failure.hosts.append(_one_line(data.get("host", "")))

    def _statistics(self, data: dict[str, Any], stdout: str) -> None:
        """Process Ansible's recap and the data of set_stats."""
        self.stats = {key: data.get(key) or {} for key in _STATS}
        self.custom = data.get("artifact_data") or {}
        self.recap = printable(stdout).strip("\n")

    def _message(self, kind: str, text: str) -> None:
        """Record each error and warning once, and the output before the first task."""
        text = "\n".join(printable_lines(text))
        if not text:
            return
        if kind == "warning":
            self.warnings[text] = None
        elif kind == "error":
            self.errors.append(text[:_LONGEST])
            del self.errors[:-_MAX_MESSAGES]
        elif text.startswith(_PROGRESS_PREFIXES):
            self._display.line(text[:_LONGEST])
        elif not self.tasks:
            self.prelude.append(text[:_LONGEST])
            del self.prelude[:-_MAX_MESSAGES]


def summary(run: Run) -> list[str]:
    """Return the summary lines: failures by cause, warnings, the slowest tasks."""
    lines = []
    for failure in run.failures:
        # The preflight names the hosts in its messages.
        hosts = "" if failure.role.endswith("preflight") and failure.kind == "failed" else fold_hosts(failure.hosts)
        lines += [
            "",
            f"{failure.kind.upper()} {hosts}: {failure.task}" if hosts else f"{failure.kind.upper()} {failure.task}",
        ]
        lines += [f"    {line}" for line in failure.message.splitlines()]
        if _SUDO_PASSWORD.search(failure.message) and "--ask-become-pass" not in failure.message:
            lines.append(f"    {SUDO_REMEDY}")
    messages = [*([] if run.tasks else run.prelude), *([] if run.failures else run.errors)]
    if messages:
        # Indentation distinguishes messages of Ansible from lines of busbar.
        lines += ["", *("\n    ".join(text.splitlines()) for text in messages)]
    if run.warnings:
        firsts = dict.fromkeys(text.splitlines()[0] for text in run.warnings)
        lines += ["", *list(firsts)[:WARNINGS]]
        if len(firsts) > WARNINGS or len(firsts) < len(run.warnings):
            lines.append("further warnings: see the log")
    if run.tasks:
        lines += ["", "Slowest tasks:"]
        slowest = sorted(run.seconds.items(), key=lambda item: -item[1])[:SLOWEST]
        lines += [f"{duration(seconds):>8}  {name}" for name, seconds in slowest if seconds >= MIN_SECONDS]
        lines.append(f"{run.tasks} tasks in {duration(run.elapsed)}")
    return lines


def failure_message(result: dict[str, Any]) -> str:
    """Return the message of a failed result, or ''."""
    items = [item for item in result.get("results") or [] if isinstance(item, dict)]
    parts = [failure_message(item) for item in items if item.get("failed") or item.get("unreachable")]
    if any(parts):
        return _shortened("\n".join(dict.fromkeys(part for part in parts if part)), result)
    message = str(result.get("msg") or result.get("censored") or "").removeprefix("Task failed: ").strip()
    if message.rstrip(".") in _UNINFORMATIVE or message.startswith("MODULE FAILURE"):
        streams = ("stderr", "module_stderr", "stdout", "module_stdout")
        output = next((str(result[name]) for name in streams if str(result.get(name) or "").strip()), "")
        message = "\n".join([message, *output.strip().splitlines()[-10:]]).strip()
    # The message of a failed download does not name the address, which may contain a password.
    url = re.sub(r"//[^/?#]*@", "//", str(result.get("url") or ""))
    return _shortened(f"{url}: {message}" if url not in message else message, result)


def _shortened(message: str, result: dict[str, Any]) -> str:
    """Truncate a message; lists of input errors may be longer."""
    most = _LONGEST_DIFF if is_refused(result) else _LONGEST
    return message if len(message) <= most else f"{message[:most]}\n… see the log for the rest"


def _task_name(data: dict[str, Any]) -> str:
    """Return a task's name with its role, without the collection's name."""
    name, role = _one_line(data.get("task") or data.get("name") or ""), _one_line(data.get("role") or "")
    if role and name.startswith(f"{role} : "):
        name = name.removeprefix(f"{role} : ")
    role = role.removeprefix("busbar.cluster.")
    if name.startswith("Validating arguments against arg spec"):
        name = "check the options"
    return f"{role} : {name}" if role else name


def _one_line(text: object) -> str:
    """Return text on one line."""
    return " ".join(printable_lines(text))
