"""Puts what several slices did together as one run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from busbar.run.events import Run

if TYPE_CHECKING:
    from collections.abc import Iterable

    from busbar.run.events import Display

__all__ = ["Tally", "put_together"]

# In the order of Ansible's own recap.
_KEYS = ("ok", "changed", "dark", "failures", "skipped", "rescued", "ignored")
_EVENTS = {
    "runner_on_ok": "ok",
    "runner_on_skipped": "skipped",
    "runner_on_failed": "failures",
    "runner_on_unreachable": "dark",
}
_SAID = dict(zip(_KEYS, ("ok", "changed", "unreachable", "failed", "skipped", "rescued", "ignored"), strict=True))


class Tally:
    """What a slice did on each host: by Ansible's own recap, or, where it never came to one, by its events."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self.hosts: dict[str, dict[str, int]] = {}
        self.earlier: list[Tally] = []

    @classmethod
    def of(cls, run: Run) -> Tally:
        """Return what a run says itself."""
        own = cls()
        names = {host for found in run.stats.values() for host in found}
        own.hosts = {host: {key: run.stats.get(key, {}).get(host, 0) for key in _KEYS} for host in names}
        return own

    def take(self, event: dict[str, Any]) -> None:
        """Take an event in."""
        kind, data = str(event.get("event", "")), event.get("event_data") or {}
        if kind == "playbook_on_stats":
            names = {host for key in _KEYS for host in data.get(key) or {}}
            self.hosts = {host: {key: (data.get(key) or {}).get(host, 0) for key in _KEYS} for host in names}
        elif kind in _EVENTS:
            self._count(kind, data, str(event.get("stdout", "")))

    def _count(self, kind: str, data: dict[str, Any], stdout: str) -> None:
        given = data.get("res")
        found: dict[str, Any] = given if isinstance(given, dict) else {}
        ignored = kind == "runner_on_failed" and data.get("ignore_errors")
        own = self.hosts.setdefault(str(data.get("host", "")), dict.fromkeys(_KEYS, 0))
        own["ok" if ignored else _EVENTS[kind]] += 1
        own["ignored"] += 1 if ignored else 0
        # Of what no_log hides Ansible's own line says whether it changed anything.
        own["changed"] += 1 if kind == "runner_on_ok" and (found.get("changed") or "changed: [" in stdout) else 0

    def fail(self, hosts: Iterable[str]) -> None:
        """Count hosts as failed: nobody came to an end with them."""
        for host in hosts:
            own = self.hosts.setdefault(host, dict.fromkeys(_KEYS, 0))
            own["failures"] = max(own["failures"], 1)

    def close(self) -> None:
        """Add what earlier attempts changed: this one found that done."""
        for host, counts in (pair for earlier in self.earlier for pair in earlier.hosts.items()):
            own = self.hosts.setdefault(host, dict.fromkeys(_KEYS, 0))
            own["changed"] += counts["changed"]


def put_together(display: Display, runs: Iterable[tuple[Run, Tally]]) -> Run:
    """Return one run of those of all slices."""
    whole = Run(display, lambda _: 0)
    hosts: dict[str, dict[str, int]] = {}
    for run, tally in runs:
        whole.started = min(whole.started, run.started)
        whole.tasks = max(whole.tasks, run.tasks)
        for name, seconds in run.seconds.items():
            whole.seconds[name] = max(whole.seconds.get(name, 0.0), seconds)
        whole.errors += [text for text in run.errors if text not in whole.errors]
        whole.prelude += [text for text in run.prelude if text not in whole.prelude]
        whole.warnings |= run.warnings
        whole.custom |= run.custom
        whole.log_problem = whole.log_problem or run.log_problem
        for failure in run.failures:
            whole.add_failure(failure)
        for host, counts in tally.hosts.items():
            own = hosts.setdefault(host, dict.fromkeys(_KEYS, 0))
            for key in _KEYS:
                own[key] += counts[key]
    whole.stats = {key: {host: found[key] for host, found in hosts.items() if found[key]} for key in _KEYS}
    width = max(map(len, hosts), default=0)
    lines = [
        f"{host:{width}} : {' '.join(f'{_SAID[k]}={found[k]:<4}' for k in _KEYS)}".rstrip()
        for host, found in sorted(hosts.items())
    ]
    order = [f"{'PLAY RECAP ':*<79}", *lines]
    whole.recap = "\n".join(order) if hosts else ""
    return whole
