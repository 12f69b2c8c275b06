"""Format the jobs page from Slurm's output and the metrics of the last validation."""

from __future__ import annotations

import re
from datetime import datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from .cluster_resources import Partition

__all__ = ["NOTHING", "cluster_rows", "ended_rows", "queue_rows", "validated"]

NOTHING = "\N{EN DASH}"
_VERDICTS = {0: "PASS", 1: "FAIL", 3: "INCONCLUSIVE"}
_SAMPLE = re.compile(r'busbar_validation_(verdict|timestamp_seconds|tests)\{(?:[^}]*verdict="([A-Z]+)")?[^}]*\} (\S+)')
_LEFT = {"UNLIMITED": "no limit", "INVALID": NOTHING, "NOT_SET": NOTHING}
_MINUTE, _HOUR, _DAY = 60, 3600, 86400
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


def queue_rows(jobs: Iterable[Mapping[str, Any]], grafana: str) -> list[dict[str, str]]:
    """Return the rows of jobs in the queue.

    Args:
        jobs: a user's jobs from `user_jobs.parse_queue`.
        grafana: URL below which each job has a dashboard; empty without Grafana.
    """
    return [
        {
            "number": job["number"],
            "name": job["name"],
            "partition": job["partition"],
            "state": queued_words(job["state"], job["reason"]),
            "gpus": _count(job["gpus"]),
            "left": _LEFT.get(job["left"], job["left"]) if job["nodes"] else NOTHING,
            "start": "" if job["nodes"] or not job["start"] else _moment(job["start"]),
            "nodes": job["nodes"] or NOTHING,
            "url": _job_url(job, grafana) if job["nodes"] else "",
        }
        for job in jobs
    ]


def ended_rows(jobs: Iterable[Mapping[str, Any]], grafana: str) -> list[dict[str, str]]:
    """Return the rows of ended jobs from `user_jobs.parse_ended`."""
    return [
        {
            "number": job["number"],
            "name": job["name"],
            "partition": job["partition"],
            "state": ended_words(job["state"]),
            "end": _moment(job["end"]),
            "took": _duration(job["seconds"]),
            "gpus": _count(job["gpus"]),
            "cpu": _percent(job["cpu"]),
            "memory": _percent(job["memory"]),
            "gpu": _percent(job["gpu"]),
            "url": _job_url(job, grafana) if job["seconds"] else "",
        }
        for job in jobs
    ]


def cluster_rows(partitions: Sequence[Partition]) -> list[dict[str, Any]]:
    """Return the rows of partitions: nodes by state, and free resources."""
    return [
        {
            "name": one.name,
            **one.nodes,
            "gpus": [
                f"{one.free_gpus.get(kind, 0)} of {count}{f' {kind}' if kind else ''}"
                for kind, count in sorted(one.gpus.items())
            ],
            "cpus": f"{one.free_cpus} of {one.cpus}",
        }
        for one in partitions
    ]


def validated(text: str) -> dict[str, str]:
    """Return verdict, time and tests of the last validation from its metrics; empty if none has run.

    Raises:
        ValueError: the text does not contain metrics of a validation.
    """
    if not text.strip():
        return {}
    verdict, began, tests = -1, 0.0, dict.fromkeys(_VERDICTS.values(), 0)
    for line in text.splitlines():
        if found := _SAMPLE.fullmatch(line):
            name, of, value = found[1], found[2], float(found[3])
            if name == "verdict":
                verdict = int(value)
            elif name == "tests" and of in tests:
                tests[of] = int(value)
            elif name == "timestamp_seconds":
                began = value
    if verdict not in _VERDICTS or not began:
        message = "the metrics contain no validation verdict"
        raise ValueError(message)
    counts = f"{tests['PASS']} of {sum(tests.values())} tests passed"
    return {"verdict": _VERDICTS[verdict], "began": _moment(began), "tests": counts}


def _count(number: int) -> str:
    return str(number) if number else NOTHING


def _percent(part: float | None) -> str:
    return NOTHING if part is None else f"{part * 100:.0f} %"


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds).astimezone().strftime("%Y-%m-%d %H:%M %Z")


def _duration(seconds: int) -> str:
    days, rest = divmod(seconds, _DAY)
    clock = f"{rest // _HOUR}:{rest % _HOUR // _MINUTE:02}:{rest % _MINUTE:02}"
    return f"{days}-{clock}" if days else clock


def _job_url(job: Mapping[str, Any], grafana: str) -> str:
    return f"{grafana}/d/busbar-job?{urlencode({'var-job': job['raw']})}" if grafana else ""
