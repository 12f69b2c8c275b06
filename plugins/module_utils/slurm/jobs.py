# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""Reads what Slurm says about nodes and jobs, and chooses who takes part in a test."""

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

# How the problem of a job begins that was ended for reasons which say nothing about its nodes.
CUT = "cut off: "
# The state of a job that Slurm ended for one of higher priority.
PREEMPTED = "PREEMPTED"
CUT_BY_LIMIT = f"{CUT}the time for all tests is over"
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
# What a node is called that is not in service though nothing runs there: a job may start in a reservation for it.
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
    """What the reservation of the tests allows.

    Attributes:
        outside: whether nodes may be tested that are drained or in anybody's reservation.
        members: nodes that the reservation of the tests has already.
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
    """Return why no test may start on a node, or an empty text.

    Args:
        node: its name.
        nodes: as parse_nodes gives them.
        share: whether a node on which other jobs run may be used.
        reserved: what the reservation of the tests allows.
    """
    if node not in nodes:
        return "not known to Slurm"
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
    """Return whether unusable_reason says that others have a node, or took it out of service: it is not broken."""
    return reason.startswith(_TAKEN)


def occupied_words(queue: str) -> str:
    """Return whose jobs run, from the lines of ``squeue -h -o '%i|%u'``; an empty text when none do."""
    jobs = [line.strip().split("|", 1) for line in queue.splitlines() if "|" in line]
    words = [f"job {job} of {user}" for job, user in jobs[:_MOST_JOBS]]
    return ", ".join(words) + (f" and {len(jobs) - _MOST_JOBS} more" if len(jobs) > _MOST_JOBS else "")


def jobs_on(queue: str, nodes: Iterable[str]) -> dict[str, list[str]]:
    """Return the jobs of some nodes in words, from lines of ``squeue -h -o '%i|%u|%N'``."""
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
    """Return those of some nodes that are drained and run nothing, each with its reason."""
    return {node: nodes[node][1] for node in wanted if node in nodes and _base(nodes[node][0]) == _DRAINED}


def drain_authors(text: str) -> dict[str, str]:
    """Return who drained each node, and when, from ``sinfo -h -N -o '%N|%u|%H'``; none of which that is not known."""
    fields = [line.strip().split("|") for line in text.splitlines()]
    known = [each for each in fields if len(each) == _NODE_FIELDS and not {"", "Unknown"} & set(each)]
    return {node: f"{user}, {when}" for node, user, when in known}


def out_of_service(wanted: list[str], nodes: dict[str, tuple[str, str]]) -> list[str]:
    """Return those of some nodes that are drained, or in a reservation, and run nothing."""
    return [node for node in wanted if node in nodes and _base(nodes[node][0]) in _RESERVED | {_DRAINED}]


def choose_nodes(  # noqa: PLR0913 - what a choice depends on
    wanted: list[str],
    candidates: list[str],
    partners: int,
    nodes: dict[str, tuple[str, str]],
    *,
    share: bool = False,
    reserved: Reserved = NOT_RESERVED,
) -> tuple[list[str], list[str], dict[str, str]]:
    """Return the nodes that can take part, the idle partners, and the others with the reason why not.

    Args:
        wanted: the nodes to be tested.
        candidates: nodes that may be asked to help.
        partners: how many of them.
        nodes: as parse_nodes gives them.
        share: whether nodes on which other jobs run may be tested; never do they help.
        reserved: what the reservation of the tests allows; who helps is in service.
    """
    reasons = {node: unusable_reason(node, nodes, share=share, reserved=reserved) for node in wanted}
    helping = reserved._replace(outside=False)
    idle = [node for node in candidates if node not in reasons and not unusable_reason(node, nodes, reserved=helping)]
    usable = [node for node in wanted if not reasons[node]]
    return usable, idle[:partners], {node: reason for node, reason in reasons.items() if reason}


def sbatch_arguments(
    job: dict[str, object], nodes: list[str], minutes: int, *, share: bool = False, reservation: str = ""
) -> list[str]:
    """Return the arguments of sbatch for a test on these very nodes.

    Args:
        job: name, arguments (a list of texts) and output (a path pattern of sbatch).
        nodes: the nodes.
        minutes: the job's time limit.
        share: whether other jobs may run on the nodes; else each of them is taken as a whole.
        reservation: in which it runs; empty for none.
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
    """Return whether a job of this state will not run any more."""
    return state.split("+", 1)[0] in ENDED
