# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""Parse Slurm's output about nodes and jobs, and choose the nodes for a test."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from .hostlist import expand_hosts

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = [
    "CUT",
    "CUT_BY_LIMIT",
    "ENDED",
    "NOT_RESERVED",
    "PREEMPTED",
    "Reserved",
    "choose_nodes",
    "drain_authors",
    "drained_nodes",
    "is_over",
    "is_taken",
    "jobs_on",
    "occupied_words",
    "out_of_service",
    "parse_job",
    "parse_nodes",
    "parse_queue",
    "sbatch_arguments",
    "unusable_reason",
]

# Prefix of the error message for jobs that were stopped for reasons unrelated to their nodes.
CUT = "cut off: "
# State of a job that a job with higher priority preempted.
PREEMPTED = "PREEMPTED"
CUT_BY_LIMIT = f"{CUT}the time limit of the validation was reached"
ENDED = frozenset(
    {
        "BOOT_FAIL",
        "CANCELLED",
        "COMPLETED",
        "DEADLINE",
        "FAILED",
        "NODE_FAIL",
        "OUT_OF_MEMORY",
        PREEMPTED,
        "REVOKED",
        "SPECIAL_EXIT",
        "TIMEOUT",
    }
)
_FREE = frozenset({"idle", "planned"})
_BUSY = frozenset({"allocated", "mixed", "completing"})
# sinfo shows this state for a drained node without jobs. In a reservation, a job can still start on it.
_DRAINED = "drained"
_RESERVED = frozenset({"reserved", "maint"})
_TAKEN = ("not idle", "not allocated", "drained", "draining", "reserved", "maint")
_MOST_JOBS = 4
_FLAGS = "*~#!%$@^-+"
_QUEUE_FIELDS = 4
_NODE_FIELDS = 3
_JOB_FIELDS = 3
_KEY = re.compile(r"(?:^|\s)([A-Z]\w*(?:[/:]\w+)*)=")


class Reserved(NamedTuple):
    """Nodes that the reservation of the tests makes available.

    Attributes:
        outside: whether drained nodes and nodes in any reservation may be tested.
        members: nodes that are already in the reservation of the tests.
    """

    outside: bool = False
    members: frozenset[str] = frozenset()


NOT_RESERVED = Reserved()


def parse_nodes(text: str) -> dict[str, tuple[str, str]]:
    """Return state and reason of each node from the output of ``sinfo -h -N -o '%N|%T|%E'``."""
    nodes: dict[str, tuple[str, str]] = {}
    for line in text.splitlines():
        fields = line.strip().split("|", _NODE_FIELDS - 1)
        if len(fields) == _NODE_FIELDS:
            reason = "" if fields[2] == "none" else fields[2]
            nodes[fields[0]] = (fields[1], reason)
    return nodes


def unusable_reason(
    node: str, nodes: dict[str, tuple[str, str]], *, share: bool = False, reserved: Reserved = NOT_RESERVED
) -> str:
    """Return why no test may start on a node, or ''.

    Args:
        node: name of the node.
        nodes: result of `parse_nodes`.
        share: whether nodes with other jobs may be used.
        reserved: nodes that the reservation of the tests makes available.
    """
    if node not in nodes:
        return "not a node in Slurm"
    state, reason = nodes[node]
    base = _base(state)
    idle = base in _FREE or (base in _RESERVED and (reserved.outside or node in reserved.members))
    idle = idle or (base == _DRAINED and reserved.outside)
    alive = idle or base in _FREE | _BUSY
    if alive and "*" not in state and (share or idle):
        return ""
    words = "does not answer" if alive and "*" in state else f"not idle: {base}" if alive else base
    return f"{words} ({reason})" if reason else words


def is_taken(reason: str) -> bool:
    """Return whether a result of `unusable_reason` means in use or drained; other results mean a fault."""
    return reason.startswith(_TAKEN)


def occupied_words(queue: str) -> str:
    """Describe the running jobs from the lines of ``squeue -h -o '%i|%u'``, or return ''."""
    jobs = [line.strip().split("|", 1) for line in queue.splitlines() if "|" in line]
    words = [f"job {job} of {user}" for job, user in jobs[:_MOST_JOBS]]
    return ", ".join(words) + (f" and {len(jobs) - _MOST_JOBS} more" if len(jobs) > _MOST_JOBS else "")


def jobs_on(queue: str, nodes: Iterable[str]) -> dict[str, list[str]]:
    """Return descriptions of the jobs on each of `nodes`, from lines of ``squeue -h -o '%i|%u|%N'``."""
    wanted, found = set(nodes), dict[str, list[str]]()
    for line in queue.splitlines():
        fields = line.strip().split("|")
        if len(fields) == _JOB_FIELDS:
            for node in wanted.intersection(expand_hosts(fields[2])):
                found.setdefault(node, []).append(f"job {fields[0]} of {fields[1]}")
    return found


def _base(state: str) -> str:
    return state.rstrip(_FLAGS).lower()


def drained_nodes(wanted: list[str], nodes: dict[str, tuple[str, str]]) -> dict[str, str]:
    """Return the nodes among `wanted` that are drained and have no jobs, each with its reason."""
    return {node: nodes[node][1] for node in wanted if node in nodes and _base(nodes[node][0]) == _DRAINED}


def drain_authors(text: str) -> dict[str, str]:
    """Return the user and time of each node's drain, if known, from ``sinfo -h -N -o '%N|%u|%H'``."""
    fields = [line.strip().split("|") for line in text.splitlines()]
    known = [each for each in fields if len(each) == _NODE_FIELDS and not {"", "Unknown"} & set(each)]
    return {node: f"{user}, {when}" for node, user, when in known}


def out_of_service(wanted: list[str], nodes: dict[str, tuple[str, str]]) -> list[str]:
    """Return the nodes among `wanted` that are drained or reserved and have no jobs."""
    return [node for node in wanted if node in nodes and _base(nodes[node][0]) in _RESERVED | {_DRAINED}]


def choose_nodes(  # noqa: PLR0913 - inputs of the choice
    wanted: list[str],
    candidates: list[str],
    partners: int,
    nodes: dict[str, tuple[str, str]],
    *,
    share: bool = False,
    reserved: Reserved = NOT_RESERVED,
) -> tuple[list[str], list[str], dict[str, str]]:
    """Return the nodes to test, the idle partners, and the excluded nodes with the reason.

    Args:
        wanted: nodes to test.
        candidates: nodes that may be partners.
        partners: number of partners needed.
        nodes: result of `parse_nodes`.
        share: whether nodes with other jobs may be tested; partners are always idle.
        reserved: nodes that the reservation makes available; partners are always in service.
    """
    reasons = {node: unusable_reason(node, nodes, share=share, reserved=reserved) for node in wanted}
    helping = reserved._replace(outside=False)
    idle = [node for node in candidates if node not in reasons and not unusable_reason(node, nodes, reserved=helping)]
    usable = [node for node in wanted if not reasons[node]]
    return usable, idle[:partners], {node: reason for node, reason in reasons.items() if reason}


def sbatch_arguments(
    job: dict[str, object], nodes: list[str], minutes: int, *, share: bool = False, reservation: str = ""
) -> list[str]:
    """Return the arguments of sbatch for a test on exactly these nodes.

    Args:
        job: name, arguments (list of strings) and output (a path pattern of sbatch).
        nodes: names of the nodes.
        minutes: time limit of the job.
        share: whether other jobs may run on the nodes; otherwise the job allocates whole nodes.
        reservation: name of the reservation; empty for none.
    """
    extra = job.get("arguments")
    return [
        "--parsable",
        "--no-requeue",
        *([] if share else ["--exclusive"]),
        f"--job-name=busbar-{job['name']}",
        f"--nodes={len(nodes)}",
        f"--nodelist={','.join(nodes)}",
        f"--time={minutes}",
        f"--output={job['output']}",
        "--chdir=/",
        *([f"--reservation={reservation}"] if reservation else []),
        *([str(item) for item in extra] if isinstance(extra, list) else []),
    ]


def parse_queue(text: str) -> dict[str, dict[str, str]]:
    """Return state, reason and batch host of each job from ``squeue -h -t all -o '%i|%T|%B|%r'``."""
    jobs = {}
    for line in text.splitlines():
        fields = line.strip().split("|", _QUEUE_FIELDS - 1)
        if len(fields) == _QUEUE_FIELDS:
            host = "" if fields[2] in {"n/a", "N/A", "(null)"} else fields[2]
            jobs[fields[0]] = {"state": fields[1], "batch_host": host, "reason": fields[3]}
    return jobs


def parse_job(text: str) -> dict[str, str]:
    """Return the keys and values of one line of ``scontrol -o show job``."""
    found = list(_KEY.finditer(text))
    ends = [match.start() for match in found[1:]] + [len(text)]
    return {match.group(1): text[match.end() : end].strip() for match, end in zip(found, ends)}


def is_over(state: str) -> bool:
    """Return whether a job in this state has ended."""
    return state.split("+", 1)[0] in ENDED
