"""Format the jobs page from Slurm's output and the metrics of the last validation."""

from __future__ import annotations

import re
from datetime import datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from .job_descriptions import ended_words, queued_words

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from .cluster_resources import Partition

__all__ = ["NOTHING", "cluster_rows", "ended_rows", "queue_rows", "validated"]

NOTHING = "\N{EN DASH}"
_VERDICTS = {0: "PASS", 1: "FAIL", 3: "INCONCLUSIVE"}
_SAMPLE = re.compile(r'busbar_validation_(verdict|timestamp_seconds|tests)\{(?:[^}]*verdict="([A-Z]+)")?[^}]*\} (\S+)')
_LEFT = {"UNLIMITED": "no limit", "INVALID": NOTHING, "NOT_SET": NOTHING}
_MINUTE, _HOUR, _DAY = 60, 3600, 86400


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
