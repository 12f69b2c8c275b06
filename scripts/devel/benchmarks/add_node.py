"""Joins one node to clusters of several sizes: sandboxes of containers on this machine, which is all that is measured.

A node joins the same cluster as it grows. Its time has three parts: its own provisioning, its validation with two
partners, and what a join costs the nodes that are there; the last is what may depend on their number.
"""

from __future__ import annotations

import re
import resource
import subprocess
import time
from typing import TYPE_CHECKING

from busbar.errors import UsageError
from busbar.option_values import whole
from busbar.sandbox.state import MAX_COMPUTE, inventory_of, sandbox_path

from devel.measured import Chart, Figure, Goal, Needs

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

__all__ = ["CHART", "GOALS", "add_options", "measure", "needs"]

GOALS = (Goal("ratio", "<=", 1.1), Goal("tasks_on_old_ratio", "<=", 1.0))
CHART = Chart("One node joins", ("wall", "provisioning_host_cpu"), "nodes there before")

# Of a container with its daemons, and of the controller's with its database and Prometheus.
_NODE_MIB, _SERVICES_MIB, _DISK_MIB = 300, 1500, 700
_QUICK = (
    *("-e", "validation_max_bytes=1M", "-e", "validation_seconds_per_size=0.2"),
    *("-e", "validation_floor_gbs=0.0001"),
)
_RECAP = re.compile(r"^(\S+)\s+: ok=(\d+)", re.MULTILINE)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add what can be chosen."""
    parser.add_argument("--sizes", default="4,16", metavar="N,M", help="compute nodes there before; default 4,16")
    parser.add_argument("--name", default="benchmark", metavar="NAME", help="of the sandbox, which must not exist")


def needs(args: argparse.Namespace) -> Needs:
    """What the largest size takes."""
    most = _sizes(args)[-1] + 1
    return Needs(_SERVICES_MIB + most * _NODE_MIB, _SERVICES_MIB + most * _DISK_MIB, "--sizes", _storage())


def measure(args: argparse.Namespace) -> Iterator[Figure]:
    """The figures of one join at each size.

    Raises:
        UsageError: sizes that are no growing list, or a sandbox that is there already.
        ValueError: a command failed.
    """
    sizes = _sizes(args)
    _refuse_existing(args.name)
    walls, tasks = [], []
    try:
        for size in sizes:
            _grow(args.name, size, first=size == sizes[0])
            _busbar("sandbox", "up", "--name", args.name, "--compute", str(size + 1))
            began, spent = time.monotonic(), _cpu()
            said = _busbar("provision", "add_nodes", "-i", str(inventory_of(args.name)), *_QUICK)
            walls.append(time.monotonic() - began)
            counts = {host: int(ok) for host, ok in _RECAP.findall(said)}
            tasks.append(max(counts[f"gpu{number}"] for number in range(1, size + 1)))
            yield Figure("wall", round(walls[-1], 1), "s", size)
            yield Figure("provisioning_host_cpu", round(_cpu() - spent, 1), "s", size)
            yield Figure("tasks_on_new", counts[f"gpu{size + 1}"], "tasks", size)
            yield Figure("tasks_on_old", tasks[-1], "tasks", size)
    finally:
        subprocess.run(["busbar", "sandbox", "down", "--name", args.name], check=False, capture_output=True)
    yield Figure("ratio", round(walls[-1] / walls[0], 2), f"of wall, {sizes[-1]} to {sizes[0]}")
    yield Figure("tasks_on_old_ratio", round(tasks[-1] / tasks[0], 2), f"of tasks, {sizes[-1]} to {sizes[0]}")


def _sizes(args: argparse.Namespace) -> list[int]:
    found = [whole("--sizes", word, 2, MAX_COMPUTE - 1) for word in str(args.sizes).split(",")]
    if len(found) < 2 or found != sorted(set(found)):  # noqa: PLR2004
        message = f"--sizes: {args.sizes}: give two or more sizes, each larger than the one before, such as 4,16"
        raise UsageError(message)
    return found


def _storage() -> str:
    """Where podman keeps its containers."""
    done = subprocess.run(
        ["podman", "info", "--format", "{{.Store.GraphRoot}}"], check=False, capture_output=True, text=True
    )
    folder = done.stdout.strip()
    if done.returncode or not folder:
        message = f"podman does not say where it keeps its containers: {done.stderr.strip()[-300:]}"
        raise UsageError(message)
    return folder


def _refuse_existing(name: str) -> None:
    if not sandbox_path(name).exists():
        return
    message = f"there is a sandbox {name} already: busbar sandbox down --name {name}, or choose another --name"
    raise UsageError(message)


def _grow(name: str, size: int, *, first: bool) -> None:
    """Have a cluster of so many nodes."""
    _busbar("sandbox", "up", "--name", name, "--compute", str(size))
    playbook = [] if first else ["add_nodes"]
    _busbar("provision", *playbook, "-i", str(inventory_of(name)), *_QUICK)


def _cpu() -> float:
    """CPU seconds of what was started here and has ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _busbar(*words: str) -> str:
    done = subprocess.run(["busbar", *words], check=False, capture_output=True, text=True)
    if done.returncode:
        message = f"busbar {' '.join(words[:4])} ended with {done.returncode}: {(done.stderr or done.stdout)[-2000:]}"
        raise ValueError(message)
    return done.stdout
