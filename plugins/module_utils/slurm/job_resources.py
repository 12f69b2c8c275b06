"""Read the resources of running and pending jobs from squeue."""

from __future__ import annotations

import re
from typing import NamedTuple

from .hostlist import expand_hosts
from .slurm_conf import count_gres, read_minutes

__all__ = ["HELD_JOBS", "JOBS_OF_USERS", "HeldJob", "read_held_jobs"]

# Field names since Slurm 21.08. No field holds free text from users, so no field can contain the separator.
_FIELD = "\x1f"
_FIELDS = (
    *("JobArrayID", "State", "UserName", "Account", "QOS", "Partition", "NodeList", "ReqNodes"),
    *("NumNodes", "TimeLimit", "tres-per-node", "tres-alloc"),
)
# All users and hidden partitions; a pending array is one line.
HELD_JOBS = (
    *("squeue", "--all", "--noheader", "--states=PENDING,RUNNING,SUSPENDED"),
    *("--Format", ",".join(f"{name}:{_FIELD}" for name in _FIELDS)),
)
# The same for selected users, whose names follow, separated by commas.
JOBS_OF_USERS = (*HELD_JOBS, "--users")
_WAITING = frozenset({"PENDING", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "RESV_DEL_HOLD", "SPECIAL_EXIT"})
_ENDLESS = 1 << 31
_NOTHING = frozenset({"", "(null)", "n/a"})
_LABEL = re.compile(r"\d[\w+\[\],%:.-]*")
_AMOUNT = re.compile(r"(\d+(?:\.\d+)?)([KMGTP]?)")
_MIB = {"K": 1 / 1024, "": 1.0, "M": 1.0, "G": 1024.0, "T": 1024.0**2, "P": 1024.0**3}


class HeldJob(NamedTuple):
    """An unfinished job; `per_job` and `per_node` are resources by name, memory in MiB."""

    label: str
    waits: bool
    user: str
    account: str
    qos: str
    partitions: tuple[str, ...]
    nodes: tuple[str, ...]
    required: tuple[str, ...]
    node_count: int
    minutes: int | None
    per_job: dict[str, float]
    per_node: dict[str, int]


def read_held_jobs(text: str) -> list[HeldJob]:
    """Return the jobs in the output of HELD_JOBS.

    Raises:
        ValueError: a line cannot be parsed.
    """
    return [_job(line) for line in text.split("\n") if line.strip()]


def _job(line: str) -> HeldJob:
    fields = [field.strip() for field in line.strip("\r").split(_FIELD)]
    # squeue also prints the separator after the last field.
    if len(fields) != len(_FIELDS) + 1 or not _LABEL.fullmatch(fields[0]):
        message = f"cannot parse the output of squeue: {line[:200]!r}"
        raise ValueError(message)
    label, state, user, account, qos, partitions, nodes, required, *rest = fields[:-1]
    count, minutes, per_node, total = rest
    amounts = _amounts(total)
    return HeldJob(
        label=label,
        waits=state in _WAITING,
        user=user,
        account=account,
        qos=qos.lower(),
        partitions=tuple(name for name in partitions.split(",") if name),
        nodes=tuple(expand_hosts(_value(nodes))),
        required=tuple(expand_hosts(_value(required))),
        node_count=max(1, int(amounts.pop("node", 0)), int(count) if count.isdigit() else 0),
        # A job without a time limit uses its partition's limit.
        minutes=_ENDLESS if minutes == "UNLIMITED" else read_minutes(minutes),
        per_job=amounts,
        # 'gres/gpu:2', or 'gres:gpu:2' in older releases.
        per_node=count_gres(re.sub(r"gres[:/]", "", _value(per_node))),
    )


def _value(text: str) -> str:
    return "" if text.lower() in _NOTHING else text


def _amounts(text: str) -> dict[str, float]:
    """Return the resources in 'cpu=4,mem=8G,node=1,gres/gpu:h100=2' by name, without the prefix gres/."""
    found = {}
    for item in _value(text).split(","):
        name, _, value = item.rpartition("=")
        matched = _AMOUNT.fullmatch(value)
        if name and matched:
            number = float(matched[1]) * (_MIB[matched[2]] if name == "mem" else 1)
            found[name.removeprefix("gres/")] = number
    return found
