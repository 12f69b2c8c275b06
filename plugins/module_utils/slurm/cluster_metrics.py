"""Compute the time series of the Slurm metrics collector."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from .node_states import NODE_STATES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from .scontrol_nodes import Node
    from .squeue import Job, Scheduler

__all__ = [
    "Family",
    "database_bytes",
    "database_families",
    "job_families",
    "job_series",
    "node_families",
    "one",
    "scheduler_families",
]

_LONGEST = 200


class Family(NamedTuple):
    """Time series with one name, without the prefix ``busbar_slurm_``; a sample has label values and a value."""

    name: str
    help: str
    labels: tuple[str, ...]
    samples: Sequence[tuple[tuple[str, ...], float]]
    is_counter: bool = False


def one(name: str, text: str, value: float, **labels: str) -> Family:
    """Return a family with one sample."""
    return Family(name, text, tuple(labels), [(tuple(labels.values()), float(value))])


def _counted(
    name: str, text: str, labels: tuple[str, ...], counts: Mapping[tuple[str, ...], float], *, is_counter: bool = False
) -> Family:
    return Family(name, text, labels, [(key, float(value)) for key, value in sorted(counts.items())], is_counter)


def _clean(text: str) -> str:
    """Return free text as one line of limited length for a label; the writer escapes quotes and backslashes."""
    return "".join(char if char.isprintable() else " " for char in text)[:_LONGEST]


def node_families(nodes: Sequence[Node], *, native: bool = False) -> list[Family]:
    """Return the series for nodes and GPUs; `native` omits those that slurmctld exports."""
    states: dict[tuple[str, ...], float] = {(state,): 0.0 for state in NODE_STATES}
    total: Counter[tuple[str, ...]] = Counter()
    used: Counter[tuple[str, ...]] = Counter()
    for node in nodes:
        states[node.state,] += 1
        total.update({(kind,): count for kind, count in node.gpus.items()})
        used.update({(kind,): count for kind, count in node.gpus_used.items()})

    def each(name: str, text: str, value: Callable[[Node], int]) -> Family:
        return Family(name, text, ("node",), [((node.name,), float(value(node))) for node in nodes])

    info = [((node.name, node.state, _clean(node.reason)), 1.0) for node in nodes]
    found = [
        _counted("nodes", "Nodes by state.", ("state",), states),
        Family("node_state_info", "State of each node, and its reason.", ("node", "state", "reason"), info),
        _counted("gpus", "GPUs by type.", ("type",), {**dict.fromkeys(used, 0), **total}),
        _counted("gpus_allocated", "GPUs allocated to jobs, by type.", ("type",), {**dict.fromkeys(total, 0), **used}),
        each("node_gpus", "GPUs of a node.", lambda node: sum(node.gpus.values())),
        each(
            "node_gpus_allocated",
            "GPUs of a node that are allocated to jobs.",
            lambda node: sum(node.gpus_used.values()),
        ),
    ]
    if not native:
        found += [
            each("node_cpus", "CPUs of a node that are available to jobs.", lambda node: node.cpus),
            each("node_cpus_allocated", "CPUs of a node that are allocated to jobs.", lambda node: node.cpus_used),
            each("node_memory_bytes", "Memory of a node.", lambda node: node.memory),
            each(
                "node_memory_allocated_bytes",
                "Memory of a node that is allocated to jobs.",
                lambda node: node.memory_used,
            ),
        ]
    return found


def job_families(jobs: Iterable[Job], partitions: Iterable[str], now: float) -> list[Family]:
    """Return the series for the queue; partitions without jobs have zeros."""
    names = dict.fromkeys(partitions)
    counts: Counter[tuple[str, ...]] = Counter()
    reasons: Counter[tuple[str, ...]] = Counter()
    users: Counter[tuple[str, ...]] = Counter()
    gpus: Counter[tuple[str, ...]] = Counter()
    oldest: dict[str, float] = {}
    waited: dict[str, list[float]] = {}
    for job in jobs:
        names.setdefault(job.partition)
        counts[job.partition, job.state] += 1
        users[job.user, job.account, job.state] += 1
        if job.state == "pending":
            reasons[job.partition, job.reason] += 1
            # Held, dependent and deferred jobs have no eligible time or one in the future.
            if 0 < job.eligible <= now:
                oldest[job.partition] = max(oldest.get(job.partition, 0), now - job.eligible)
        elif job.state == "running":
            gpus[job.user, job.account] += job.gpus
            if job.eligible and job.start:
                waited.setdefault(job.partition, []).append(max(0, job.start - job.eligible))
    for name in names:
        for state in ("pending", "running"):
            counts.setdefault((name, state), 0)
    longest: dict[tuple[str, ...], float] = {(name,): oldest.get(name, 0) for name in names}
    mean: dict[tuple[str, ...], float] = {(name,): sum(times) / len(times) for name, times in waited.items()}
    account = ("user", "account")
    return [
        _counted("jobs", "Unfinished jobs by partition and state.", ("partition", "state"), counts),
        _counted("jobs_pending", "Pending jobs by reason.", ("partition", "reason"), reasons),
        _counted("user_jobs", "Jobs of each user.", (*account, "state"), users),
        _counted("user_gpus_allocated", "GPUs allocated to the jobs of each user.", account, gpus),
        _counted("wait_seconds_max", "Waiting time of the oldest eligible job.", ("partition",), longest),
        _counted("wait_seconds_mean", "Mean waiting time of the running jobs.", ("partition",), mean),
    ]


def job_series(jobs: Iterable[Job], limit: int) -> list[Family]:
    """Return series for each running job and its nodes, at most `limit` of each, and the number of omitted jobs.

    Jobs with the most GPUs come first, so that only the least important series are omitted.
    """
    running = sorted((job for job in jobs if job.state == "running"), key=lambda job: (-job.gpus, int(job.number)))
    info: list[tuple[tuple[str, ...], float]] = []
    places: list[tuple[tuple[str, ...], float]] = []
    for job in running:
        if len(info) < limit and len(places) + len(job.nodes) <= limit:
            info.append(((job.number, job.user, job.account, job.partition, _clean(job.name)), 1.0))
            places += [((job.number, node), 1.0) for node in job.nodes]
    return [
        Family("job_info", "Running jobs.", ("job", "user", "account", "partition", "name"), info),
        Family("job_node_info", "Nodes of the running jobs.", ("job", "node"), places),
        one("jobs_left_out", "Running jobs without a separate series.", len(running) - len(info)),
    ]


def scheduler_families(scheduler: Scheduler, *, native: bool = False) -> list[Family]:
    """Return the series for slurmctld; `native` omits those that slurmctld exports."""
    rpcs = _counted("rpcs", "RPCs that slurmctld answered.", (), {(): scheduler.rpcs}, is_counter=True)
    if native:
        return [rpcs]
    return [
        rpcs,
        one("scheduler_cycle_seconds", "Duration of the last cycle of the main scheduler.", scheduler.cycle),
        one("backfill_cycle_seconds", "Duration of the last cycle of the backfill scheduler.", scheduler.backfill),
        one("scheduler_threads", "Threads of slurmctld that serve RPCs.", scheduler.threads),
        one("slurmdbd_queue_messages", "Messages queued for slurmdbd.", scheduler.dbd_queue),
    ]


def database_bytes(folder: Path) -> int:
    """Return the size in bytes of a directory tree.

    Raises:
        OSError: the directory cannot be read.
    """
    return sum(path.lstat().st_size for path in [folder, *folder.rglob("*")])


def database_families(settings: Mapping[str, Any]) -> list[Family]:
    """Return the series of the accounting database on this host.

    Raises:
        OSError: the directory cannot be read.
    """
    return [one("database_bytes", "Size of the accounting database.", database_bytes(Path(settings["directory"])))]
