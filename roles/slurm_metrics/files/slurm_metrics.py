"""Queries Slurm periodically and writes metrics for the node exporter. Runs with the system python3 of a controller."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ansible_collections.busbar.cluster.plugins.module_utils.slurm.cluster_metrics import (
    Family,
    database_families,
    job_families,
    job_series,
    node_families,
    one,
    scheduler_families,
)
from ansible_collections.busbar.cluster.plugins.module_utils.slurm.scontrol_nodes import (
    Node,
    read_json_nodes,
    read_text_nodes,
)
from ansible_collections.busbar.cluster.plugins.module_utils.slurm.squeue import (
    Job,
    controllers_up,
    fresh_marks,
    queue_format,
    read_jobs,
    read_scheduler,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

_PREFIX = "busbar_slurm_"
_PING = ("scontrol", "ping")
_NODES = ("scontrol", "--all", "show", "nodes")
_QUEUE = ("squeue", "--all", "--array", "--noheader", "--Format")
_STATISTICS = ("sdiag",)
# A fast query for which slurmdbd needs its database.
_ACCOUNTING = ("sacctmgr", "--noheader", "--parsable2", "show", "cluster", "format=Cluster")
_ENVIRONMENT = {"LC_ALL": "C.UTF-8", "SLURM_TIME_FORMAT": "%s"}
_PATH = "/usr/sbin:/usr/bin:/sbin:/bin:/usr/local/bin"
_KILLED_WITHIN_S = 5.0

# Start of the error message for output with an unknown format.
_UNPARSED = "cannot parse the output"


class Settings(NamedTuple):
    """The settings that the role writes: output file, interval and timeout of a query (seconds)."""

    file: str
    controller: str
    interval: float = 30
    timeout: float = 10
    accounting: bool = True
    native: bool = False
    jobs: bool = True
    jobs_limit: int = 5000


class CommandError(Exception):
    """A Slurm command failed or timed out; the message contains the command and the reason."""


class _Command:
    """A running command."""

    def __init__(self, command: Sequence[str], timeout_s: float) -> None:
        environment = {"PATH": _PATH, **{k: v for k, v in os.environ.items() if k in {"SLURM_CONF", "PATH"}}}
        self.command = command
        self.deadline = time.monotonic() + timeout_s
        self.timeout_s = timeout_s
        self.process: subprocess.Popen[bytes] | None = None
        with contextlib.suppress(OSError):
            self.process = subprocess.Popen(  # noqa: S603 - fixed commands
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env={**environment, **_ENVIRONMENT},
                start_new_session=True,
            )

    def answer(self) -> str:
        """Return the output.

        Raises:
            CommandError: the command failed or timed out; its process group has been killed.
        """
        if self.process is None:
            message = f"{self.command[0]} cannot be started"
            raise CommandError(message)
        try:
            output, errors = self.process.communicate(timeout=max(0.01, self.deadline - time.monotonic()))
        except subprocess.TimeoutExpired as exc:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.communicate(timeout=_KILLED_WITHIN_S)
            message = f"{' '.join(self.command[:3])}: no answer within {self.timeout_s:g} s"
            raise CommandError(message) from exc
        if self.process.returncode:
            output = " ".join(errors.decode(errors="replace").split())[:300]
            message = f"{' '.join(self.command[:3])} failed with exit status {self.process.returncode}: {output}"
            raise CommandError(message)
        return output.decode(errors="replace")


def ask(command: Sequence[str], timeout_s: float) -> str:
    """Return the output of a command.

    Raises:
        CommandError: the command failed or timed out.
    """
    return _Command(command, timeout_s).answer()


class Collector:
    """Queries Slurm, and records which queries this release of Slurm supports."""

    def __init__(self, settings: Settings, say: Callable[[str], None] | None = None) -> None:
        """Store the settings; `say` receives one line for each new error."""
        self.settings = settings
        self.has_json = True
        self._say = say or _to_journal
        self._problems: dict[str, str] = {}

    def collect(self) -> list[Family]:
        """Return the current metrics, with at most six commands, independent of the number of nodes and jobs."""
        began, used = time.time(), _cpu_seconds()
        settings = self.settings
        accounting = _Command(_ACCOUNTING, settings.timeout) if settings.accounting else None
        # Only the active controller exports the cluster's metrics, so that they are not counted twice.
        controllers = controllers_up(self._try_query("ping", lambda: ask(_PING, settings.timeout)) or "")
        acting = next((name for name, up in controllers.items() if up), "")
        up = controllers.get(settings.controller, False)
        families: list[Family] = []
        if up and acting == settings.controller:
            families, up = self._state(began)
        if accounting:
            answered = self._try_query("slurmdbd", accounting.answer) is not None
            families.append(one("slurmdbd_up", "Whether slurmdbd and its database answer.", answered))
        who = {"controller": settings.controller}
        return [
            one("up", "Whether slurmctld of this controller answers.", up, **who),
            one("acting", "Whether this controller is active.", acting == settings.controller, **who),
            *families,
            one("collected_timestamp_seconds", "Time of the query.", began, **who),
            one("collect_duration_seconds", "Duration of the query.", time.time() - began, **who),
            one(
                "collect_cpu_seconds",
                "CPU time of the query, including Slurm's commands.",
                _cpu_seconds() - used,
                **who,
            ),
        ]

    def _state(self, now: float) -> tuple[list[Family], bool]:
        """Return the metrics of the cluster, and whether slurmctld answered all queries."""
        settings = self.settings
        nodes = self._try_query("nodes", self._nodes)
        if nodes is None:
            return [], "nodes" in self._unparsed
        partitions = dict.fromkeys(name for node in nodes for name in node.partitions)
        families = node_families(nodes, native=settings.native)
        jobs = self._try_query("jobs", self._jobs)
        if jobs is not None:
            families += job_families(jobs, partitions, now)
            families += job_series(jobs, settings.jobs_limit) if settings.jobs else []
        elif "jobs" not in self._unparsed:
            return families, False
        scheduler = self._try_query("scheduler", lambda: read_scheduler(ask(_STATISTICS, settings.timeout)))
        families += scheduler_families(scheduler, native=settings.native) if scheduler else []
        return families, scheduler is not None or "scheduler" in self._unparsed

    def _nodes(self) -> list[Node]:
        if self.has_json:
            try:
                return read_json_nodes(json.loads(ask((*_NODES, "--json"), self.settings.timeout)))
            except ValueError:
                # Slurm before 23.02 prints text instead of JSON, so this is permanent.
                self.has_json = False
            except CommandError as exc:
                if not _is_about_json(str(exc)):
                    raise
                self.has_json = False
        text = ask((*_NODES, "--oneliner", "--details"), self.settings.timeout)
        nodes = read_text_nodes(text)
        if text.strip() and not nodes:
            message = f"scontrol printed no nodes (found {text[:200]!r})"
            raise ValueError(message)
        return nodes

    def _jobs(self) -> list[Job]:
        marks = fresh_marks()
        return read_jobs(ask((*_QUEUE, queue_format(marks)), self.settings.timeout), marks)

    @property
    def _unparsed(self) -> set[str]:
        """The queries whose output has an unknown format."""
        return {what for what, trouble in self._problems.items() if trouble.startswith(_UNPARSED)}

    def _try_query(self, what: str, question: Callable[[], Any]) -> Any:  # noqa: ANN401 - the result of `question`
        """Return the answer, or None; log an error once, and once when it is resolved."""
        try:
            answer = question()
        except CommandError as exc:
            trouble = str(exc)
        except (AttributeError, KeyError, TypeError, ValueError) as exc:
            trouble = f"{_UNPARSED}: {type(exc).__name__}: {exc}"
        else:
            if self._problems.pop(what, None):
                self._say(f"{what}: answers again")
            return answer
        if self._problems.get(what) != trouble:
            self._say(f"{what}: {trouble}")
        self._problems[what] = trouble
        return None


def _to_journal(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


def _is_about_json(message: str) -> bool:
    """Return whether a command failed because it or its plugins do not support JSON."""
    return any(word in message.lower() for word in ("json", "option", "plugin", "serializer"))


def _cpu_seconds() -> float:
    """Return the CPU time of this process and of all its terminated children, in seconds."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


class MetricFamilies:
    """A collector for a registry of prometheus_client."""

    def __init__(self, families: Sequence[Family]) -> None:
        """Store the metric families."""
        self.families = families

    def collect(self) -> Iterator[Any]:
        """Yield the metric families as objects of prometheus_client."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily  # noqa: PLC0415 - targets only

        for family in self.families:
            kind = CounterMetricFamily if family.is_counter else GaugeMetricFamily
            metric = kind(_PREFIX + family.name, family.help, labels=family.labels)
            for values, value in family.samples:
                metric.add_metric(values, value)
            yield metric


def write(file: str, families: Sequence[Family]) -> None:
    """Write the metrics to a file atomically.

    Raises:
        OSError: the file cannot be written.
    """
    from prometheus_client import CollectorRegistry, write_to_textfile  # noqa: PLC0415 - not needed by tests

    registry = CollectorRegistry(auto_describe=False)
    registry.register(MetricFamilies(families))
    write_to_textfile(file, registry)


def main(arguments: Sequence[str], configuration: Path) -> int:
    """Collect periodically, once with ``--once``, or write the metrics of the database with ``--database``."""
    values = json.loads(configuration.read_text(encoding="utf-8"))
    if "--database" in arguments:
        write(values["database"]["file"], database_families(values["database"]))
        return 0
    collector = Collector(Settings(**values["collector"]))
    while True:
        began = time.monotonic()
        write(collector.settings.file, collector.collect())
        if "--once" in arguments:
            return 0
        time.sleep(max(1.0, collector.settings.interval - (time.monotonic() - began)))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], Path(sys.argv[0]).resolve().with_suffix(".json")))
