"""Explains why Slurm rejects a job or keeps it in the queue, and what the user or the admin can change."""

from __future__ import annotations

import re
from math import inf
from typing import TYPE_CHECKING

from ansible_collections.busbar.cluster.plugins.module_utils.slurm.accounting_limits import normal_value
from ansible_collections.busbar.cluster.plugins.module_utils.slurm.slurm_conf import read_minutes

if TYPE_CHECKING:
    from collections.abc import Iterator

# Pending reasons, named as in job_state_reason.c, that do not change by themselves.
_NEVER = re.compile(
    r"Invalid(Account|QOS)|(Account|QOS)NotAllowed|BadConstraints|DependencyNeverSatisfied|JobHeld(Admin|User)"
    r"|Partition(Node|Time)Limit|MaxMemPerLimit|(Association|QOS)TimeLimit"
    r"|(Assoc|QOS)Max\w+Per(Job|Node)(Limit)?|QOSMin\w+"
)
# Any limit of an association or a QOS. Slurm names per-account limits in a QOS without the word QOS.
_LIMIT = re.compile(r"\b((?:Assoc|QOS)(?:iation)?(?:Grp|Max|Min|Job|Resource|Time)\w*|Max\w+PerAccount)")
_PARTITION = "(scontrol show partition)"
_ASSOC, _QOS = "(sacctmgr show assoc)", "(sacctmgr show qos)"
# Maps a word in a reason to the corresponding part of the limit's name in slurmctld's records.
_KINDS = {"Grp": "Grp", "PerUser": "PU", "PerAccount": "PA", "PerJob": "PJ", "Jobs": "Jobs"}
# Reasons and error messages from slurm_errno.c.
_REMEDIES = {
    r"JobHeld": "the cluster holds new jobs: ask the admin to release the job",
    r"Invalid ?account|AccountNotAllowed|account not permitted": f"use another --account {_ASSOC} or --partition, or "
    f"ask the admin to add your account to AllowAccounts of the partition {_PARTITION}",
    r"group not permitted": "use another --partition, or ask the admin to add your group to AllowGroups of the "
    f"partition {_PARTITION}",
    r"InvalidQOS|QOSNotAllowed|invalid qos|qos not permitted": "use another --qos or --partition, or ask the admin to "
    f"allow the QOS for your account {_ASSOC} and in AllowQos of the partition {_PARTITION}",
    r"PartitionTimeLimit|time limit is invalid": "lower --time, or ask the admin to raise MaxTime of the partition "
    f"{_PARTITION}",
    r"PartitionNodeLimit|Node count specification": "lower --nodes, or ask the admin to raise MaxNodes of the "
    f"partition {_PARTITION}",
    r"partition not available|Partition(Down|Inactive)": "use another --partition, or ask the admin when this "
    "partition is available again",
}


def never_starts(reason: str) -> bool:
    """Return whether a job with this pending reason can never start, regardless of other jobs."""
    return _NEVER.fullmatch(reason) is not None


def remedy(text: str, exceeded: list[str] | None = None) -> str:
    """Return the remedy for a pending reason or an error message from sbatch; empty if it needs none.

    Args:
        text: the reason or the message.
        exceeded: the limits that the job exceeds, if known.
    """
    limit = _LIMIT.search(text)
    if limit is None:
        found = [words for pattern, words in _REMEDIES.items() if re.search(pattern, text, re.IGNORECASE)]
        unnamed = f"ask the admin which limit it exceeds {_QOS}" if "accounting/QOS policy" in text else ""
        return next(iter(found), unnamed)
    owner = f"your account {_ASSOC}" if limit[1].startswith("Assoc") else f"your QOS {_QOS}"
    if limit[1].startswith("QOSMin"):
        return f"ask the admin to lower the minimum {limit[1]} of {owner}, or raise --nodes"
    known = f": {', '.join(exceeded)}" if exceeded else ""
    return f"ask the admin to raise the limit {limit[1]} of {owner}{known}; or lower --nodes or --time"


def exceeded_limits(reason: str, job: dict[str, str], partition_qos: str, text: str) -> list[str]:
    """Return the limits that a pending reason refers to and that the job's request exceeds.

    Such a job can never start, regardless of other jobs.

    Args:
        reason: the pending reason.
        job: keys and values of ``scontrol -o show job``.
        partition_qos: QOS of its partition, whose limits apply too; empty for none.
        text: output of ``scontrol -o show assoc_mgr flags=assoc,qos``.
    """
    kind = next((short for word, short in _KINDS.items() if word in reason), "")
    minutes = read_minutes(job.get("TimeLimit", ""))
    records = _associations if reason.startswith("Assoc") else _qos_records
    return [
        f"{limit} of {owner}"
        for owner, record in records(job, partition_qos, text.splitlines())
        for name, limit in _exceeded(record, _amounts(job.get("ReqTRES", "")), inf if minutes is None else minutes)
        # Max limits of an account are only defaults for its users.
        if kind in name and (name.startswith("Grp") or not owner.startswith("account"))
    ]


def _associations(job: dict[str, str], _partition_qos: str, lines: list[str]) -> Iterator[tuple[str, str]]:
    """Yield the owner and the record of the user's association and of each parent account."""
    known = [(line, dict(re.findall(r"\b(Account|UserName|ParentAccount)=(\S*)", line))) for line in lines]
    accounts = {keys["Account"]: (line, keys) for line, keys in known if keys.get("UserName") == ""}
    name, user = job.get("Account", ""), job.get("UserId", "")
    for line, keys in known:
        if keys.get("UserName") == user and keys["Account"] == name:
            yield f"user {user.partition('(')[0]}", line
    while name in accounts:
        # Removing the account prevents an endless loop if the records contain a cycle.
        line, keys = accounts.pop(name)
        yield f"account {name}", line
        name = keys.get("ParentAccount", "").partition("(")[0]


def _qos_records(job: dict[str, str], partition_qos: str, lines: list[str]) -> Iterator[tuple[str, str]]:
    """Yield the owner and each record of the QOS of the job and of its partition, also those per user and account."""
    mine = "|".join(re.escape(job.get(key, "")) for key in ("Account", "UserId"))
    for line in lines:
        name = line.strip().partition("(")[0].removeprefix("QOS=")
        if line.strip().startswith("QOS=") and name in {job.get("QOS"), partition_qos}:
            yield f"QOS {name}", line.partition(" Account Limits=")[0]
            for record in re.findall(rf"[ =](?:{mine})={{([^}}]*)}}", line):
                yield f"QOS {name}", record


def _amounts(text: str) -> dict[str, float]:
    """Parse a TRES string such as ``cpu=4,mem=4G``; memory is returned in MiB."""
    try:
        items = normal_value(text, "tres").split(",")
    except ValueError:
        return {}
    return {key: float(amount) for key, _, amount in (item.rpartition("=") for item in items) if key}


def _exceeded(record: str, requested: dict[str, float], minutes: float) -> Iterator[tuple[str, str]]:
    """Yield the name and a description of each limit in a slurmctld record that the request exceeds."""
    for name, values in re.findall(r"\b((?:Grp|Max)(?:TRES|Wall|Jobs)(?!Accrue|Run)[A-Za-z]*)=(\S+)", record):
        for item in values.split(","):
            resource, separator, amount = item.rpartition("=")
            # The current use follows in parentheses; N stands for no limit.
            limit = re.match(r"\d+(?=\(|$)", amount)
            needed = minutes if "Wall" in name else requested.get(resource, 0.0) if separator else 1.0
            needed *= minutes if "Mins" in name else 1
            if limit is not None and not name.endswith("PN") and needed > float(limit[0]):
                yield name, f"{name} {resource}{separator}{limit[0]} (the job needs {needed:g})"
