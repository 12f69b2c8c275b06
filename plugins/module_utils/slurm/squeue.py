"""Parse the output of `squeue`, `sdiag` and `scontrol ping`."""

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
    """Separators after a field and after a record in the output of one `squeue` call."""

    field: str
    record: str


class Job(NamedTuple):
    """An unfinished job; times in seconds since 1970, 0 if unset."""

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
    """Statistics of slurmctld; cycles in seconds, RPCs since the statistics were reset."""

    cycle: float
    backfill: float
    threads: int
    dbd_queue: int
    rpcs: int


def fresh_marks() -> Marks:
    """Return random separators for one call of `squeue`.

    Users choose job names, which may contain any fixed separator.
    """
    token = secrets.token_hex(16)
    return Marks(f"\x1f{token}", f"\x1e{token}")


def queue_format(marks: Marks, fields: Sequence[str] = _FIELDS) -> str:
    """Return the argument of ``squeue --noheader --Format`` whose output `queue_records` parses.

    A separator without a width prints each field in full length.
    """
    return ",".join([*(f"{name}:{marks.field}" for name in fields[:-1]), f"{fields[-1]}:{marks.record}"])


def queue_records(text: str, marks: Marks, fields: Sequence[str] = _FIELDS) -> list[list[str]]:
    """Return the fields of each job in the output of ``squeue`` for `queue_format` with the same marks and fields.

    Raises:
        ValueError: a record is not a job, or the output is truncated.
    """
    *records, rest = text.split(marks.record)
    found = [record.lstrip("\r\n").split(marks.field) for record in records]
    wrong = [one for one in found if len(one) != len(fields) or not _NUMBER.match(one[0])]
    if wrong or rest.strip():
        output = " ".join(wrong[0]) if wrong else rest.strip()
        message = f"squeue printed an invalid job line: {output[:200]!r}"
        raise ValueError(message)
    return found


def read_jobs(text: str, marks: Marks) -> list[Job]:
    """Return the jobs in the output of ``squeue --array`` for `queue_format`, with times as numbers.

    Raises:
        ValueError: a record is not a job, or the output is truncated.
    """
    return [_job(fields) for fields in queue_records(text, marks)]


def _job(fields: list[str]) -> Job:
    number, state, partition, user, account, reason, eligible, start, tres, nodes, name = fields
    gpus = _GPUS.search(tres)
    word = _REASON.match(reason)
    return Job(
        number=number,
        state=state.lower(),
        # Count a job that is submitted to several partitions once.
        partition=partition.partition(",")[0],
        user=user,
        account=account,
        # Some reasons are followed by names of nodes or of a reservation.
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
    """Return the statistics in the output of ``sdiag``.

    Raises:
        ValueError: the output is not from sdiag.
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
            # The backfill section uses the same names as the main scheduler's section.
            counts.setdefault(("backfill" if section.startswith("Backfill") else "", matched[1]), int(matched[2]))
    if ("", "Server thread count") not in counts:
        message = f"sdiag reported no thread count: {text[:200]!r}"
        raise ValueError(message)
    return Scheduler(
        cycle=counts.get(("", "Last cycle"), 0) / 1e6,
        backfill=counts.get(("backfill", "Last cycle"), 0) / 1e6,
        threads=counts["", "Server thread count"],
        dbd_queue=counts.get(("", "DBD Agent queue size"), 0),
        rpcs=rpcs,
    )


def controllers_up(text: str) -> dict[str, bool]:
    """Return whether each controller answers, in order, from the output of ``scontrol ping``."""
    matched = (_PING.match(line) for line in text.splitlines())
    return {found[1]: found[2] == "UP" for found in matched if found}
