"""Joins one node to clusters of several sizes: sandboxes of containers on this machine, which is all that is measured.

A node joins the same cluster as it grows. Its time has three parts: its own provisioning, its validation with two
partners, and what a join costs the nodes that are there; the last is what may depend on their number. The network of
the sandbox is declared, as docs/storage.md asks of clusters of more than a few dozen nodes.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from busbar.sandbox import state

from devel import sandboxes
from devel.measured import Chart, Figure, Goal, Needs

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

__all__ = ["CHART", "GOALS", "add_options", "measure", "needs"]

GOALS = (Goal("ratio", "<=", 1.1), Goal("tasks_on_old_ratio", "<=", 1.0))
CHART = Chart("One node joins", ("wall", "provisioning_host_cpu"), "nodes there before")


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add what can be chosen."""
    parser.add_argument("--sizes", default="4,16", metavar="N,M", help="compute nodes there before; default 4,16")
    sandboxes.add_name(parser)


def needs(args: argparse.Namespace) -> Needs:
    """What the largest size takes."""
    return sandboxes.needs(_sizes(args)[-1] + 1, "--sizes")


def measure(args: argparse.Namespace) -> Iterator[Figure]:
    """The figures of one join at each size.

    Raises:
        UsageError: sizes that are no growing list, or a sandbox that is there already.
        ValueError: a command failed.
    """
    sizes = _sizes(args)
    walls, tasks = [], []
    with sandboxes.sandbox(args.name) as inventory:
        for size in sizes:
            sandboxes.busbar("sandbox", "up", "--name", args.name, "--compute", str(size))
            networks = json.dumps({"cluster_networks": [f"{state.load(args.name).subnet}.0/24"]})
            options = ("-i", str(inventory), "-e", networks, *sandboxes.QUICK)
            sandboxes.busbar("provision", *([] if size == sizes[0] else ["add_nodes"]), *options)
            sandboxes.busbar("sandbox", "up", "--name", args.name, "--compute", str(size + 1))
            spent = sandboxes.timed("provision", "add_nodes", *options)
            counts = {host: ran for host, (ran, _changed) in sandboxes.recap(spent.said).items()}
            walls.append(spent.wall)
            tasks.append(max(counts[f"gpu{number}"] for number in range(1, size + 1)))
            yield Figure("wall", round(spent.wall, 1), "s", size)
            yield Figure("provisioning_host_cpu", round(spent.cpu, 1), "s", size)
            yield Figure("tasks_on_new", counts[f"gpu{size + 1}"], "tasks", size)
            yield Figure("tasks_on_old", tasks[-1], "tasks", size)
    yield Figure("ratio", round(walls[-1] / walls[0], 2), f"of wall, {sizes[-1]} to {sizes[0]}")
    yield Figure("tasks_on_old_ratio", round(tasks[-1] / tasks[0], 2), f"of tasks, {sizes[-1]} to {sizes[0]}")


def _sizes(args: argparse.Namespace) -> list[int]:
    return sandboxes.sizes(str(args.sizes), 2, "4,16")
