"""Validates a sandbox, and compares how long it took with how long its jobs ran: what is left is busbar's own time.

The jobs' time is that in which at least one ran, from Slurm's accounting. It holds no second of a scheduler, so that
what busbar is charged with includes the waiting that a bare `srun` of the same jobs would have had too.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from busbar.option_values import whole
from busbar.sandbox import state

from devel import sandboxes
from devel.measured import Figure, Goal, Needs

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Iterator

__all__ = ["CHART", "GOALS", "add_options", "covered", "measure", "needs"]

GOALS = (Goal("overhead_beyond_2_percent", "<=", 5),)
CHART = None
_USER = "busbar-validation"


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add what can be chosen."""
    sandboxes.add_compute(parser, 4)
    parser.add_argument("--times", default="3", metavar="N", help="validations of the same sandbox; default 3")
    sandboxes.add_name(parser)


def needs(args: argparse.Namespace) -> Needs:
    """What the sandbox takes."""
    return sandboxes.needs(sandboxes.compute(args), "--compute")


def measure(args: argparse.Namespace) -> Iterator[Figure]:
    """The times of each validation.

    Raises:
        UsageError: no such number of nodes, or a sandbox that is there already.
        ValueError: a command failed, or accounting knows no job of the validation.
    """
    times = whole("--times", str(args.times), 1, 99)
    with sandboxes.sandbox(args.name) as inventory:
        sandboxes.busbar("sandbox", "up", "--name", args.name, "--compute", str(sandboxes.compute(args)))
        sandboxes.busbar("provision", "-i", str(inventory), "--skip-tags", "validation_run")
        spans: list[tuple[int, int]] = []
        walls = 0.0
        for _ in range(times):
            began = int(time.time())
            walls += sandboxes.timed("validate", "-i", str(inventory), "-e", "validation_floor_gbs=0.0001").wall
            spans += _spans(state.load(args.name), began)
    ran = covered(spans)
    if not ran:
        message = "Slurm's accounting knows no job of these validations"
        raise ValueError(message)
    yield Figure("validation", round(walls / times, 1), "s, mean")
    yield Figure("jobs_ran", round(ran / times, 1), "s, mean")
    yield Figure("jobs", round(len(spans) / times, 1), "jobs, mean")
    yield Figure("overhead", round((walls - ran) / times, 1), "s, mean")
    yield Figure("overhead_beyond_2_percent", round((walls - 1.02 * ran) / times, 1), "s, mean")


def covered(spans: Iterable[tuple[int, int]]) -> int:
    """The seconds that at least one of several spans of time covers; each is from its first to its last second."""
    seconds, until = 0, 0
    for start, end in sorted(spans):
        seconds += max(0, end - max(start, until))
        until = max(until, end)
    return seconds


def _spans(cluster: state.Sandbox, since: int) -> list[tuple[int, int]]:
    """Start and end of the validation's jobs since then, seconds since 1970.

    Raises:
        ValueError: sacct failed.
    """
    asked = f"SLURM_TIME_FORMAT=%s sacct -nXP -u {_USER} -S $(date -d @{since} +%FT%T) -o Start,End"
    lines = sandboxes.printed(cluster, "ctl", asked).decode().splitlines()
    pairs = [line.split("|") for line in lines]
    return [(int(start), int(end)) for start, end in pairs if start.isdigit() and end.isdigit() and int(start) >= since]
