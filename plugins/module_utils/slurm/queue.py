"""Reads what `squeue`, `sdiag` and `scontrol ping` say."""

from __future__ import annotations

import re
import secrets
from typing import TYPE_CHECKING, NamedTuple

from .hostlist import expand_hosts

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "Job",
    "Marks",
    "Scheduler",
    "controllers_up",
    "fresh_marks",
    "queue_format",
    "queue_records",
    "read_jobs",
    "read_scheduler",
]

_FIELDS = (
    *("JobID", "State", "Partition", "UserName", "Account", "Reason"),
    *("EligibleTime", "StartTime", "tres-alloc", "NodeList", "Name"),
)
_NUMBER = re.compile(r"[0-9]+")
_REASON = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
_GPUS = re.compile(r"(?:^|,)gres/gpu=(\d+)")
_COUNT = re.compile(r"^\s*(\S.*?):\s*(\d+)\s*$")
_RPC = re.compile(r"\bcount:(\d+)")
_PING = re.compile(r"^Slurmctld\([^)]*\) at (\S+) is (\w+)")
_RPCS_BY_TYPE = "Remote Procedure Call statistics by message type"


class Marks(NamedTuple):
    """What ends a field and a record in one answer of `squeue`."""

    field: str
    record: str


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


def fresh_marks() -> Marks:
    """Return marks that nobody can have put into a job's name, for one call of `squeue`.

    A job's name is its user's and holds any character, fixed separators included.
    """
    token = secrets.token_hex(16)
    return Marks(f"\x1f{token}", f"\x1e{token}")


def queue_format(marks: Marks, fields: Sequence[str] = _FIELDS) -> str:
    """Return the argument of ``squeue --noheader --Format`` whose answer `queue_records` reads.

    A mark without a width: the field is as long as its value.
    """
    return ",".join([*(f"{name}:{marks.field}" for name in fields[:-1]), f"{fields[-1]}:{marks.record}"])


def queue_records(text: str, marks: Marks, fields: Sequence[str] = _FIELDS) -> list[list[str]]:
    """Return the fields of each job in an answer of ``squeue``, asked with `queue_format` of these marks and fields.

    Raises:
        ValueError: something in it is no job, or the answer ends in the middle of one.
    """
    *records, rest = text.split(marks.record)
    found = [record.lstrip("\r\n").split(marks.field) for record in records]
    wrong = [one for one in found if len(one) != len(fields) or not _NUMBER.match(one[0])]
    if wrong or rest.strip():
        said = " ".join(wrong[0]) if wrong else rest.strip()
        message = f"squeue said something that is no job: {said[:200]!r}"
        raise ValueError(message)
    return found


def read_jobs(text: str, marks: Marks) -> list[Job]:
    """Return the jobs in an answer of ``squeue --array``, asked with `queue_format` and times as numbers.

    Raises:
        ValueError: something in it is no job, or the answer ends in the middle of one.
    """
    return [_job(fields) for fields in queue_records(text, marks)]


def _job(fields: list[str]) -> Job:
    number, state, partition, user, account, reason, eligible, start, tres, nodes, name = fields
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
        name=name,
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
