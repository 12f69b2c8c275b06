"""User-facing descriptions of Slurm's job states and reasons."""

from __future__ import annotations

import re

__all__ = ["ended_words", "queued_words"]

# https://slurm.schedmd.com/job_state_codes.html
_STATES = {
    "RUNNING": "runs",
    "PENDING": "waits",
    "CONFIGURING": "its nodes start",
    "COMPLETING": "is ending",
    "SUSPENDED": "is suspended",
    "STOPPED": "is stopped",
    "REQUEUED": "was requeued",
    "REQUEUE_HOLD": "was requeued and is held",
    "SPECIAL_EXIT": "was requeued and is held",
    "RESV_DEL_HOLD": "is held: its reservation was deleted",
}
_ENDS = {
    "COMPLETED": "completed",
    "FAILED": "failed with an error",
    "TIMEOUT": "reached its time limit",
    "DEADLINE": "reached its deadline",
    "OUT_OF_MEMORY": "ran out of memory",
    "NODE_FAIL": "its node failed",
    "BOOT_FAIL": "its node did not boot",
    "PREEMPTED": "a job of higher priority preempted it",
    "CANCELLED": "was cancelled",
}
# https://slurm.schedmd.com/job_reason_codes.html; the first matching pattern counts.
_REASONS = (
    (r"None|", "Slurm has not considered it yet"),
    (r"Resources", "for free nodes"),
    (r"Priority", "jobs of higher priority come first"),
    (r"Dependency", "for a job that it depends on"),
    (r"DependencyNeverSatisfied", "for a job that can no longer meet the dependency: cancel it"),
    (r"BeginTime", "for its begin time"),
    (r"JobHeldUser", "you held it: run scontrol release"),
    (r"JobHeldAdmin", "an administrator held it"),
    (r"ReqNodeNotAvail", "for nodes that are out of service or reserved"),
    (r"Nodes_required_for_job_are_DOWN,_DRAINED.*", "for nodes that are out of service or reserved"),
    (r"PartitionDown|PartitionInactive", "its partition is closed to jobs"),
    (r"PartitionNodeLimit|PartitionTimeLimit", "it requests more nodes or time than its partition allows"),
    (r"Reservation", "for its reservation to begin"),
    (r"Licenses", "for licences"),
    (r"JobArrayTaskLimit", "for earlier tasks of its array"),
    (r"QOS.*", "for a limit of its QOS: {reason}"),
    (r"(?:Assoc|InvalidAccount|MaxJobsPerAccount).*", "for a limit of its account: {reason}"),
    (r"BadConstraints|AccountNotAllowed|InvalidQOS", "it can never start: {reason}"),
    (r"launch_failed_requeued_held", "its start failed, and it is held: contact an administrator"),
)


def queued_words(state: str, reason: str) -> str:
    """Describe the state of a job in the queue, and why it is pending."""
    words = _STATES.get(state, state.lower().replace("_", " "))
    if state != "PENDING":
        return words
    word = reason.partition(",")[0].split(" ")[0] if reason.startswith("ReqNodeNotAvail") else reason.strip("()")
    for pattern, why in _REASONS:
        if re.fullmatch(pattern, word):
            return f"{words}{' ' if why.startswith('for ') else ': '}{why.format(reason=word)}"
    return f"{words}: {word}"


def ended_words(state: str) -> str:
    """Describe how a job ended."""
    return _ENDS.get(state, state.lower().replace("_", " "))
