"""Parse a user's queued and ended jobs, including the efficiency of ended jobs.

Job names are chosen by users and may contain any character, so fields are separated by random marks.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

from ..slurm.squeue import queue_format, queue_records

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..slurm.squeue import Marks

__all__ = ["MOST_ENDED", "ended_command", "parse_ended", "parse_queue", "queue_command"]

MOST_ENDED = 100
_LONGEST_NAME = 120
_QUEUE = (
    *("JobID", "JobArrayID", "State", "Partition", "UserName", "Reason"),
    *("TimeLeft", "StartTime", "tres-alloc", "NodeList", "Name"),
)
# No record separator is needed, because the last field contains no user text.
_ENDED = (
    *("JobID", "JobIDRaw", "State", "JobName", "Partition", "ElapsedRaw", "AllocCPUS", "TotalCPU"),
    *("NTasks", "AllocTRES", "TRESUsageInMax", "End"),
)
_TRES = re.compile(r"(?:^|,)([a-z]+(?:/[a-z]+)?)=([0-9.]+)([KMGTP]?)(?=,|$)")
_UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40, "P": 2**50}
_CLOCK = re.compile(r"(?:(?:(\d+)-)?(\d+):)?(\d+):(\d+(?:\.\d+)?)")


class Queued(NamedTuple):
    """A job in the queue; `start` in seconds since 1970, 0 if unknown."""

    number: str
    raw: str
    name: str
    state: str
    partition: str
    reason: str
    left: str
    start: int
    gpus: int
    nodes: str


class Ended(NamedTuple):
    """A finished job; `cpu`, `memory` and `gpu` are the used fractions of its allocation, None if not measured."""

    number: str
    raw: str
    name: str
    state: str
    partition: str
    end: int
    seconds: int
    cpus: int
    gpus: int
    cpu: float | None
    memory: float | None
    gpu: float | None


def queue_command(marks: Marks) -> list[str]:
    """Return the `squeue` command for the jobs of all users, with times in seconds since 1970."""
    return ["squeue", "--noheader", f"--Format={queue_format(marks, _QUEUE)}"]


def ended_command(marks: Marks, user: str, days: int) -> list[str]:
    """Return the `sacct` command for a user's recent jobs, with numeric times."""
    return [
        *("sacct", "--noheader", "--parsable2", "--noconvert", f"--delimiter={marks.field}"),
        *(f"--user={user}", f"--starttime=now-{days}days", f"--format={','.join(_ENDED)}"),
    ]


def parse_queue(text: str, marks: Marks) -> dict[str, list[dict[str, Any]]]:
    """Return the jobs of each user as fields of `Queued` from the output of `queue_command`.

    Raises:
        ValueError: a record is not a job.
    """
    found: dict[str, list[dict[str, Any]]] = {}
    for raw, number, state, partition, user, reason, *more in queue_records(text, marks, _QUEUE):
        left, start, tres, nodes, name = more
        job = Queued(
            number=number,
            raw=raw,
            name=_clean(name),
            state=state,
            partition=partition,
            reason=reason,
            left=left,
            start=int(start) if start.isdigit() else 0,
            gpus=int(_tres(tres).get("gres/gpu", 0)),
            nodes=nodes,
        )
        found.setdefault(user, []).append(job._asdict())
    return found


def parse_ended(text: str, marks: Marks) -> list[dict[str, Any]]:
    """Return the last ended jobs as fields of `Ended`, latest first, from the output of `ended_command`.

    Raises:
        ValueError: a record is not a job.
    """
    jobs: dict[str, dict[str, str]] = {}
    steps: dict[str, list[dict[str, str]]] = {}
    for row in _rows(text, marks):
        number, dot, _ = row["JobIDRaw"].partition(".")
        if dot:
            steps.setdefault(number, []).append(row)
        else:
            # A requeued job has one record per run; the last one counts.
            jobs[number] = row
            steps.pop(number, None)
    ended = [_ended(row, steps.get(number, [])) for number, row in jobs.items() if row["End"].isdigit()]
    return [job._asdict() for job in sorted(ended, key=lambda job: -job.end)[:MOST_ENDED]]


def _rows(text: str, marks: Marks) -> list[dict[str, str]]:
    if not text:
        return []
    width = len(_ENDED) - 1
    values = text.removesuffix("\n").split(marks.field)
    if len(values) == 1 or (len(values) - 1) % width:
        message = f"sacct printed an invalid job line: {text.strip()[:200]!r}"
        raise ValueError(message)
    # The last field of a record, the newline and the first field of the next record are one value.
    rows, first = [], values[0]
    for place in range(1, len(values), width):
        *middle, last = values[place : place + width]
        last, _, following = last.partition("\n")
        rows.append(dict(zip(_ENDED, [first, *middle, last])))
        first = following
    return rows


def _ended(row: dict[str, str], steps: Sequence[dict[str, str]]) -> Ended:
    had = _tres(row["AllocTRES"])
    seconds, cpus = int(row["ElapsedRaw"] or 0), int(row["AllocCPUS"] or 0)
    used = _seconds(row["TotalCPU"])
    peaks = [(_tres(step["TRESUsageInMax"]), int(step["NTasks"] or 1)) for step in steps]
    # Slurm records the memory of the largest task, so the product is an upper bound for the step.
    memory = max((peak.get("mem", 0) * tasks for peak, tasks in peaks), default=0)
    busy = [peak["gres/gpuutil"] for peak, _ in peaks if "gres/gpuutil" in peak]
    state = row["State"].split(" ")[0]
    if state == "FAILED" and any(step["State"] == "OUT_OF_MEMORY" for step in steps):
        state = "OUT_OF_MEMORY"
    return Ended(
        number=row["JobID"],
        raw=row["JobIDRaw"],
        name=_clean(row["JobName"]),
        state=state,
        partition=row["Partition"],
        end=int(row["End"]),
        seconds=seconds,
        cpus=cpus,
        gpus=int(had.get("gres/gpu", 0)),
        cpu=min(1.0, used / (seconds * cpus)) if used and seconds * cpus else None,
        memory=min(1.0, memory / had["mem"]) if memory and had.get("mem") else None,
        gpu=min(1.0, max(busy) / 100) if busy and had.get("gres/gpu") else None,
    )


def _tres(text: str) -> dict[str, float]:
    """Parse ``cpu=2,mem=1024M,gres/gpu=1``; the count of an untyped entry includes typed ones (``gres/gpu:h100``)."""
    return {found[1]: float(found[2]) * _UNITS[found[3]] for found in _TRES.finditer(text)}


def _seconds(text: str) -> float:
    clock = _CLOCK.fullmatch(text)
    if not clock:
        return 0.0
    days, hours, minutes, seconds = (float(part or 0) for part in clock.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60 + seconds


def _clean(text: str) -> str:
    """Return a name as one line of limited length; the page escapes it."""
    return "".join(char if char.isprintable() else " " for char in text)[:_LONGEST_NAME]
