"""Read notebook jobs, free resources by partition, and users' accounts for the portal."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

__all__ = [
    "JOBS",
    "NODES",
    "PARTITIONS",
    "Job",
    "Partition",
    "end_reason",
    "parse_accounts",
    "parse_jobs",
    "parse_partitions",
    "usable",
]

# One request covers the notebooks of all users.
JOBS = ["squeue", "--noheader", "--states=all", "--format=%A|%T|%B|%r", "--name=busbar-notebook"]
PARTITIONS = ["scontrol", "show", "partition", "--oneliner"]
_COLUMNS = {"PartitionName": 128, "StateCompact": 32, "Nodes": 12, "CPUsState": 64, "Gres": 512, "GresUsed": 512}
NODES = ["sinfo", "--noheader", f"--Format={','.join(f'{name}:{width}' for name, width in _COLUMNS.items())}"]

PENDING = {"PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_HOLD", "RESV_DEL_HOLD", "SPECIAL_EXIT"}
RUNNING = {"RUNNING", "COMPLETING", "SUSPENDED", "STOPPED", "SIGNALING", "RESIZING", "STAGE_OUT"}
# https://slurm.schedmd.com/job_state_codes.html
_ENDS = {
    "TIMEOUT": "it reached its time limit: choose more hours",
    "DEADLINE": "it reached its deadline",
    "OUT_OF_MEMORY": "it ran out of memory: choose more",
    "NODE_FAIL": "its node failed; saved files are kept",
    "BOOT_FAIL": "its node did not boot",
    "PREEMPTED": "a job of higher priority preempted it",
    "CANCELLED": "it was cancelled",
    "COMPLETED": "it was shut down, or idle for too long",
    "FAILED": "it failed; its log contains the error",
}
# sinfo's short node states. All others, and states with * (not responding), count as out of service.
_NODES = {
    "idle": "idle",
    "plnd": "idle",
    "mix": "mixed",
    "alloc": "allocated",
    "comp": "allocated",
    "resv": "reserved",
    "maint": "reserved",
}
_OPEN = {"idle", "mixed", "allocated"}
_GPUS = re.compile(r"gpu(?::(?P<type>[A-Za-z0-9_.-]+))?:(?P<count>[0-9]+)")


class Job(NamedTuple):
    """The job of a notebook."""

    state: str
    node: str
    reason: str

    @property
    def is_pending(self) -> bool:
        """Whether the job is pending."""
        return self.state in PENDING

    @property
    def is_running(self) -> bool:
        """Whether the job is running on a node."""
        return self.state in RUNNING


class Partition(NamedTuple):
    """A partition: limits, allowed groups and accounts, nodes by state, total and free GPUs by type."""

    name: str
    default: bool
    max_minutes: int
    groups: frozenset[str]
    accounts: frozenset[str]
    cpus: int
    free_cpus: int
    gpus: dict[str, int]
    free_gpus: dict[str, int]
    most_gpus: int
    nodes: dict[str, int]


def parse_jobs(text: str) -> dict[str, Job]:
    """Return the notebook jobs by job id from the output of `JOBS`."""
    jobs = {}
    for line in text.splitlines():
        fields = line.split("|")
        if len(fields) == 4 and fields[0].isdigit():  # noqa: PLR2004 - fields of JOBS
            jobs[fields[0]] = Job(fields[1], "" if fields[2] == "n/a" else fields[2], fields[3])
    return jobs


def end_reason(job: Job | None) -> str:
    """Return why a notebook ended."""
    if job is None:
        return "its job has left Slurm's queue"
    return _ENDS.get(job.state, f"its job state is {job.state}")


def _minutes(text: str) -> int:
    """Return the minutes of a Slurm time such as ``1-12:00:00``; 0 means unlimited.

    Raises:
        ValueError: the text is not a time.
    """
    if text in ("UNLIMITED", "NONE", "infinite", ""):
        return 0
    days, _, clock = text.rpartition("-")
    hours, minutes, _ = (["0", "0", *clock.split(":")])[-3:]
    return int(days or 0) * 1440 + int(hours) * 60 + int(minutes)


def _gpu_counts(text: str) -> dict[str, int]:
    counts: dict[str, int] = {}
    for found in _GPUS.finditer(text):
        kind = found["type"] or ""
        counts[kind] = counts.get(kind, 0) + int(found["count"])
    return counts


def _names(text: str) -> frozenset[str]:
    return frozenset() if text in ("ALL", "(null)", "") else frozenset(text.split(","))


class _Sum:
    """Totals of the nodes of a partition, summed over the lines of sinfo."""

    def __init__(self) -> None:
        self.cpus = self.free_cpus = self.most = 0
        self.nodes = dict.fromkeys((*_NODES.values(), "out"), 0)
        self.gpus: dict[str, int] = {}
        self.free: dict[str, int] = {}

    def add(self, nodes: int, cpus: str, state: str, gres: str, used: str) -> None:
        _, idle, _, total = (int(word) for word in cpus.split("/"))
        self.cpus += total
        word = "" if state.endswith("*") else re.sub(r"[^a-z].*", "", state)
        kind = _NODES.get(word, "out")
        self.nodes[kind] += nodes
        open_to_jobs = kind in _OPEN
        self.free_cpus += idle if open_to_jobs else 0
        taken = _gpu_counts(used)
        for kind, count in _gpu_counts(gres).items():
            self.most = max(self.most, count)
            self.gpus[kind] = self.gpus.get(kind, 0) + count * nodes
            left = (count - taken.get(kind, 0)) * nodes if open_to_jobs else 0
            self.free[kind] = self.free.get(kind, 0) + left


def parse_partitions(partitions: str, nodes: str) -> list[Partition]:
    """Return the partitions that accept jobs, from the outputs of `PARTITIONS` and `NODES`.

    Raises:
        ValueError: a field cannot be parsed.
    """
    sums: dict[str, _Sum] = {}
    for line in nodes.splitlines():
        fields, place = [], 0
        for width in _COLUMNS.values():
            fields.append(line[place : place + width].strip())
            place += width
        name, state, count, cpus, gres, used = fields
        if name:
            sums.setdefault(name.rstrip("*"), _Sum()).add(int(count), cpus, state, gres, used)
    found = []
    for line in partitions.splitlines():
        entry = dict(word.split("=", 1) for word in line.split() if "=" in word)
        if entry.get("State") != "UP" or entry.get("Hidden") == "YES" or entry.get("RootOnly") == "YES":
            continue
        name = entry["PartitionName"]
        has = sums.get(name, _Sum())
        found.append(
            Partition(
                name=name,
                default=entry.get("Default") == "YES",
                max_minutes=_minutes(entry.get("MaxTime", "")),
                groups=_names(entry.get("AllowGroups", "ALL")),
                accounts=_names(entry.get("AllowAccounts", "ALL")),
                cpus=has.cpus,
                free_cpus=has.free_cpus,
                gpus=has.gpus,
                free_gpus=has.free,
                most_gpus=has.most,
                nodes=has.nodes,
            )
        )
    return sorted(found, key=lambda partition: (not partition.default, partition.name))


def parse_accounts(text: str) -> list[str]:
    """Return the accounts that a user may charge, the default account first.

    Args:
        text: output of `sacctmgr -nP show user NAME withassoc format=Account,DefaultAccount`.
    """
    pairs = [line.split("|") for line in text.splitlines() if line.count("|") == 1]
    names = {account for account, _ in pairs if account}
    default = next((name for _, name in pairs if name in names), "")
    return sorted(names, key=lambda name: (name != default, name))


def usable(partitions: Iterable[Partition], groups: Collection[str], accounts: Collection[str]) -> list[Partition]:
    """Return the partitions that a user with these groups and accounts may use."""
    return [
        partition
        for partition in partitions
        if (not partition.groups or partition.groups & set(groups))
        and (not partition.accounts or not accounts or partition.accounts & set(accounts))
    ]
