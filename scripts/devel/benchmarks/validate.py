"""Validates a sandbox, and runs the same jobs without busbar, in turns: what a validation takes longer is its overhead.

Without busbar means that what was submitted is submitted again, by the same user: the jobs that had run side by side at
once, and the next ones as soon as these have ended, which Slurm is asked every fifth of a second.
"""

from __future__ import annotations

import shlex
import time
from typing import TYPE_CHECKING, NamedTuple

from busbar.option_values import whole
from busbar.sandbox import state

from devel import sandboxes
from devel.measured import Figure, Goal, Needs

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Iterator

__all__ = ["CHART", "GOALS", "Job", "add_options", "again", "jobs_of", "measure", "needs", "rounds"]

GOALS = (Goal("overhead_beyond_2_percent", "<=", 5),)
CHART = None
_USER = "busbar-validation"
_FIELDS = 4


class Job(NamedTuple):
    """A job of a validation: its number, its first and last second, and the command that submitted it."""

    number: str
    start: int
    end: int
    submitted: str


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add what can be chosen."""
    sandboxes.add_compute(parser, 4)
    parser.add_argument("--times", default="3", metavar="N", help="validations of the same sandbox; default 3")
    sandboxes.add_name(parser)


def needs(args: argparse.Namespace) -> Needs:
    """What the sandbox takes."""
    return sandboxes.needs(sandboxes.compute(args), "--compute")


def measure(args: argparse.Namespace) -> Iterator[Figure]:
    """The times of each validation and of its jobs alone.

    Raises:
        UsageError: no such number of nodes, or a sandbox that is there already.
        ValueError: a command or a job failed, or accounting knows no job of a validation.
    """
    times = whole("--times", str(args.times), 1, 99)
    walls = alone = 0.0
    number = 0
    with sandboxes.sandbox(args.name) as inventory:
        sandboxes.busbar("sandbox", "up", "--name", args.name, "--compute", str(sandboxes.compute(args)))
        sandboxes.busbar("provision", "-i", str(inventory), "--skip-tags", "validation_run")
        cluster = state.load(args.name)
        for _ in range(times):
            began = int(time.time())
            walls += sandboxes.timed("validate", "-i", str(inventory), "-e", "validation_floor_gbs=0.0001").wall
            jobs = _jobs(cluster, began)
            number += len(jobs)
            alone += float(sandboxes.printed(cluster, "ctl", again(rounds(jobs))).split()[-1])
    yield Figure("validation", round(walls / times, 1), "s, mean")
    yield Figure("jobs_alone", round(alone / times, 1), "s, mean")
    yield Figure("jobs", round(number / times, 1), "jobs, mean")
    yield Figure("overhead", round((walls - alone) / times, 1), "s, mean")
    yield Figure("overhead_beyond_2_percent", round((walls - 1.02 * alone) / times, 1), "s, mean")


def rounds(jobs: Iterable[Job]) -> list[list[Job]]:
    """The jobs in order, those together that ran side by side."""
    found: list[list[Job]] = []
    until = -1
    for job in sorted(jobs, key=lambda job: (job.start, job.end)):
        if found and job.start < until:
            found[-1].append(job)
        else:
            found.append([job])
        until = max(until, job.end)
    return found


def again(sets: Iterable[Iterable[Job]]) -> str:
    """A shell script that submits jobs once more, one set after the other, and prints how many seconds that took.

    It fails when a job did not complete: one that breaks off at once would take no time.
    """
    numbered = [list(jobs) for jobs in sets]
    lines = [
        "set -eu",
        "scripts=$(mktemp -d)",
        "trap 'rm -r \"$scripts\"' EXIT",
        f"home=$(getent passwd {_USER} | cut -d: -f6)",
        # What the jobs of a validation are told, and nothing of root's.
        f'told="PATH=$PATH HOME=$home USER={_USER} LOGNAME={_USER} SHELL=/bin/bash LANG=C.UTF-8"',
        f'submit() {{ runuser -u {_USER} -- env -i $told "$@" <"$scripts/$number" >>"$scripts/submitted"; }}',
        'open_jobs() { squeue -h -j "$(paste -sd, "$scripts/submitted")" -t PD,CF,R,S; }',
        "wait_for() { while open_jobs | grep -q .; do sleep 0.2; done; }",
    ]
    written = sorted(job.number for jobs in numbered for job in jobs)
    lines += [f'scontrol write batch_script {number} "$scripts/{number}" >&2' for number in written]
    lines.append("began=$(date +%s.%N)")
    for jobs in numbered:
        lines += [f"number={job.number}; submit {shlex.join(job.submitted.split())}" for job in jobs]
        lines.append("wait_for")
    lines += [
        "ended=$(date +%s.%N)",
        'for number in $(cat "$scripts/submitted"); do',
        '  scontrol -o show job "$number" | grep -Eq " JobState=(COMPLETED|COMPLETING) .* ExitCode=0:0 " ||',
        '    { echo "job $number failed: $(scontrol -o show job "$number")" >&2; exit 1; }',
        "done",
        'awk -v a="$began" -v b="$ended" \'BEGIN { printf "%.1f\\n", b - a }\'',
    ]
    return "\n".join(lines)


def jobs_of(text: str, since: int) -> list[Job]:
    """The jobs that began since then, from ``sacct -nXP -o JobID,Start,End,SubmitLine`` with times in seconds."""
    found = []
    for line in text.splitlines():
        fields = line.split("|", _FIELDS - 1)
        if len(fields) == _FIELDS and fields[1].isdigit() and fields[2].isdigit() and int(fields[1]) >= since:
            found.append(Job(fields[0], int(fields[1]), int(fields[2]), fields[3]))
    return found


def _jobs(cluster: state.Sandbox, since: int) -> list[Job]:
    """The jobs of a validation that began then, seconds since 1970.

    Raises:
        ValueError: sacct failed, or knows none.
    """
    asked = f"SLURM_TIME_FORMAT=%s sacct -nXP -u {_USER} -S $(date -d @{since} +%FT%T) -o JobID,Start,End,SubmitLine"
    found = jobs_of(sandboxes.printed(cluster, "ctl", asked).decode(), since)
    if not found:
        message = "Slurm's accounting knows no job of this validation"
        raise ValueError(message)
    return found
