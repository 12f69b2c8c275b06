"""A run that would change nothing is left out when that is proven: the same inputs, and hosts that answer as before.

A full run that changes nothing leaves a record: what its result depends on, and each execution of a module with the
digest of its answer. As long as the inputs are the same and each of them, done once more in check mode, gives the same
answer, a full run would come to the same decisions at each step, and change nothing again.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ansible_collections.busbar.cluster.plugins.module_utils.common.hostlist import fold_hosts
from ansible_collections.busbar.cluster.plugins.plugin_utils.last_run import (
    FOLDER,
    NotKeptError,
    keep,
    read,
    record_of,
)

from busbar.paths import collection
from busbar.run.inputs import UnsureError, difference, inputs
from busbar.run.playbook import inventory_hosts

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from busbar.run.events import Run
    from busbar.run.playbook import Playbook

__all__ = ["LastRun", "why_due"]

# After that a full run is due, whatever nothing has changed.
_DUE_S = 7 * 24 * 3600
# Of these a run says something else than what it does with all hosts, or has another purpose.
_PARTIAL = frozenset(
    {"-l", "--limit", "-t", "--tags", "--start-at-task", "--flush-cache", "--force-handlers", "-C", "--check"}
    | {"--syntax-check", "--list-hosts", "--list-tasks", "--list-tags"}
)
_CLEAN = ("failures", "dark", "changed", "rescued", "ignored")


def why_due(about: dict[str, Any], now: dict[str, str], clock: float) -> str:
    """Return why a full run is due, '' when the hosts alone can tell.

    Args:
        about: what was kept with the last one, empty when there is none.
        now: what a run depends on.
        clock: seconds since 1970.
    """
    if not about:
        return "no full run before this one changed nothing"
    if changed := difference(about["inputs"], now):
        return f"{changed} changed since the last full run"
    if clock >= about.get("due", math.inf):
        return "a certificate is to be renewed"
    if not 0 <= clock - about["ended"] < _DUE_S:
        return "the last full run is older than 7 days"
    return ""


class LastRun:
    """What is known of the last full run of an inventory, and what a run makes of it."""

    def __init__(self, playbook: Playbook, *, wanted: bool) -> None:
        """Look what there is.

        Args:
            playbook: what the user wants to run.
            wanted: whether he allows to leave it out.
        """
        self._playbook = playbook
        self._record = record_of(playbook.inventory[0])
        self._inputs: dict[str, str] = {}
        self._about: dict[str, Any] = {}
        self.unchanged = False
        self.concerned = playbook.path == collection() / "playbooks" / "site.yml" and _PARTIAL.isdisjoint(
            playbook.options
        )
        self.why_full = self._why_full(wanted=wanted) if self.concerned else ""

    @property
    def probe(self) -> Playbook | None:
        """What asks the hosts whether they are as they were, None when a full run is due anyway."""
        if not self.concerned or self.why_full:
            return None
        options = [*self._playbook.options, "-e", f"last_run_record={self._record}"]
        return dataclasses.replace(self._playbook, path=collection() / "playbooks" / "unchanged.yml", options=options)

    @property
    def rest(self) -> Playbook | None:
        """What is to run when nothing has changed, None when the user does not want that either."""
        skipped = {tag for word in _values(self._playbook.options, "--skip-tags") for tag in word.split(",")}
        if "validation" in skipped:
            return None
        return dataclasses.replace(self._playbook, path=collection() / "playbooks" / "put_into_service.yml")

    def judge(self, probe: Run, returned: int) -> list[str]:
        """Return what to tell of the hosts by what the probe found; see `unchanged` and `why_full` then."""
        found = probe.custom.get("busbar_drift")
        drift: dict[str, str] = found if isinstance(found, dict) else {}
        moved = {host: drift.get(host, "no answer") for host in self._about["hosts"] if drift.get(host, "no answer")}
        if moved or returned:
            self.why_full = next((f"{host}: {said}" for host, said in moved.items()), "the look at the hosts failed")
            return [*(f"{host}: changed since the last full run: {said}" for host, said in moved.items())]
        self.unchanged = True
        when = time.strftime("%Y-%m-%d %H:%M", time.localtime(self._about["ended"]))
        hosts = fold_hosts(sorted(set(self._about["hosts"]) - {"localhost"}))
        return [f"{hosts}: unchanged since {when} (full run), nothing drifted: skipped; --no-fast runs all of it"]

    @contextmanager
    def recorded(self, playbook: Playbook) -> Iterator[Recording]:
        """Give what runs a playbook, or what is left of it, and notes a full run."""
        rest = self.rest if self.unchanged else None
        if rest or not self._inputs:
            yield Recording(rest or playbook, self._record.parent, {})
            return
        # Beside the record: what is noted holds secrets, too.
        self._record.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".recording-", dir=self._record.parent) as folder:
            yield Recording(playbook, Path(folder), self._inputs)

    def _why_full(self, *, wanted: bool) -> str:
        """Return why a full run is due, '' when it may not be."""
        try:
            self._inputs = inputs(self._playbook)
        except UnsureError as exc:
            return str(exc)
        if not wanted:
            return "--no-fast"
        self._about = read(self._record)
        return why_due(self._about, self._inputs, time.time())


class Recording:
    """A full run that is noted."""

    def __init__(self, playbook: Playbook, folder: Path, before: dict[str, str]) -> None:
        """Take what runs, where it is noted, and what it depends on; nothing is noted where that is not known."""
        self._folder, self._before = folder, before
        self.playbook = (
            dataclasses.replace(playbook, environment=playbook.environment | {FOLDER: str(folder)})
            if before
            else playbook
        )

    def keep(self, run: Run, returned: int) -> str:
        """Keep a record of a run that changed nothing; returns why not, '' when it is kept or nobody expects it."""
        if not self._before or returned or run.again or any(run.stats.get(key) for key in _CLEAN) or not run.stats:
            return ""
        if set(inventory_hosts(self.playbook, "all")) - set(run.stats["ok"]):
            return ""
        try:
            now = inputs(self.playbook)
            if changed := difference(self._before, now):
                return f"{changed} changed while it ran"
            keep(self._folder, record_of(self.playbook.inventory[0]), {"ended": time.time(), "inputs": now})
        except (UnsureError, NotKeptError) as exc:
            return str(exc)
        except OSError as exc:
            return f"{exc.filename}: {exc.strerror}"
        return ""


def _values(words: Sequence[str], option: str) -> Iterator[str]:
    """Yield what is given with an option."""
    return (value for word, value in itertools.pairwise(words) if word == option)
