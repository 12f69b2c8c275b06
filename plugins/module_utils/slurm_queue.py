"""Reads what `squeue`, `sdiag` and `scontrol ping` say."""

from __future__ import annotations

import re
from typing import NamedTuple

from .slurm_hostlist import expand_hosts

__all__ = [
    "SQUEUE_FORMAT",
    "Job",
    "Scheduler",
    "controllers_up",
    "read_jobs",
    "read_scheduler",
]

# Names of jobs hold any character, so records and fields end with control characters, and the name stands last.
_FIELD, _RECORD = "\x1f", "\x1e"
_FIELDS = (
    *("JobID", "State", "Partition", "UserName", "Account", "Reason"),
    *("EligibleTime", "StartTime", "tres-alloc", "NodeList", "Name"),
)
# A suffix without a width: the field is as long as its value.
SQUEUE_FORMAT = ",".join(f"{name}:{_RECORD if name == _FIELDS[-1] else _FIELD}" for name in _FIELDS)
_REASON = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
_GPUS = re.compile(r"(?:^|,)gres/gpu=(\d+)")
_COUNT = re.compile(r"^\s*(\S.*?):\s*(\d+)\s*$")
_RPC = re.compile(r"\bcount:(\d+)")
_PING = re.compile(r"^Slurmctld\([^)]*\) at (\S+) is (\w+)")
_RPCS_BY_TYPE = "Remote Procedure Call statistics by message type"


class Job(NamedTuple):
    """A job that has not ended; times in seconds since 1970, 0 for none."""

    number: str
    state: str
    partition: str
    user: str
    account: str
    reason: str
    eligible: int
    start: int
    gpus: int
    nodes: tuple[str, ...]
    name: str


class Scheduler(NamedTuple):
    """What slurmctld tells of itself; cycles in seconds, RPCs since its statistics began."""

    cycle: float
    backfill: float
    threads: int
    dbd_queue: int
    rpcs: int


def read_jobs(text: str) -> list[Job]:
    """Return the jobs in the output of ``squeue --noheader --array --Format`` with SQUEUE_FORMAT and times as numbers.

    Raises:
        ValueError: there is something, and none of it is a job.
    """
    records = text.split(_RECORD)
    found = [_job(fields) for fields in (record.strip("\r\n").split(_FIELD) for record in records) if _is_job(fields)]
    if text.strip() and not found:
        message = f"squeue said nothing that is a job: {text[:200]!r}"
        raise ValueError(message)
    return found


def _is_job(fields: list[str]) -> bool:
    return len(fields) >= len(_FIELDS) and fields[0].isdigit()


def _job(fields: list[str]) -> Job:
    number, state, partition, user, account, reason, eligible, start, tres, nodes = fields[: len(_FIELDS) - 1]
    gpus = _GPUS.search(tres)
    word = _REASON.match(reason)
    return Job(
        number=number,
        state=state.lower(),
        # A job that waits for several partitions counts once.
        partition=partition.partition(",")[0],
        user=user,
        account=account,
        # Some reasons go on with names of nodes or of a reservation.
        reason=word[0] if word else "None",
        eligible=_time(eligible),
        start=_time(start),
        gpus=int(gpus[1]) if gpus else 0,
        nodes=tuple(expand_hosts(nodes)),
        name=_FIELD.join(fields[len(_FIELDS) - 1 :]),
    )


def _time(text: str) -> int:
    return int(text) if text.isdigit() else 0


def read_scheduler(text: str) -> Scheduler:
    """Return the figures in the output of ``sdiag``.

    Raises:
        ValueError: it is not what sdiag prints.
    """
    counts: dict[tuple[str, str], int] = {}
    section, rpcs = "", 0
    for line in text.split("\n"):
        if line and not line[0].isspace():
            section = line
        if section.startswith(_RPCS_BY_TYPE):
            rpcs += sum(map(int, _RPC.findall(line)))
            continue
        matched = _COUNT.match(line)
        if matched:
            # Backfilling repeats the names of the main scheduler.
            counts.setdefault(("backfill" if section.startswith("Backfill") else "", matched[1]), int(matched[2]))
    if ("", "Server thread count") not in counts:
        message = f"sdiag said nothing of its threads: {text[:200]!r}"
        raise ValueError(message)
    return Scheduler(
        cycle=counts.get(("", "Last cycle"), 0) / 1e6,
        backfill=counts.get(("backfill", "Last cycle"), 0) / 1e6,
        threads=counts["", "Server thread count"],
        dbd_queue=counts.get(("", "DBD Agent queue size"), 0),
        rpcs=rpcs,
    )


def controllers_up(text: str) -> dict[str, bool]:
    """Return which controllers answer, in their order, from the output of ``scontrol ping``."""
    matched = (_PING.match(line) for line in text.splitlines())
    return {found[1]: found[2] == "UP" for found in matched if found}
