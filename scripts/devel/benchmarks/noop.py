"""Provisions clusters of several sizes again: sandboxes on this machine, which is all that is measured.

The second run executes everything, has nothing to change and must say so. The third is left out, because of the record
of the second, and must say that. They are measured without a validation, which is a test of the hardware, and takes as
long as its tests.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from devel import sandboxes
from devel.measured import Chart, Figure, Goal, Needs

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

__all__ = ["CHART", "GOALS", "add_options", "measure", "needs"]

GOALS = (Goal("wall", "<=", 30, at=4), Goal("wall_per_further_node", "<=", 1.5))
CHART = Chart("A run that has nothing to do", ("provisioning_host_cpu", "full_cpu"), "compute nodes")
_LEFT_OUT = "nothing drifted: skipped"


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add what can be chosen."""
    parser.add_argument("--sizes", default="2,4,8,16", metavar="N,…", help="compute nodes; default 2,4,8,16")
    sandboxes.add_name(parser)


def needs(args: argparse.Namespace) -> Needs:
    """What the largest size takes."""
    return sandboxes.needs(_sizes(args)[-1], "--sizes")


def measure(args: argparse.Namespace) -> Iterator[Figure]:
    """The figures of a second and a third run at each size.

    Raises:
        UsageError: sizes that are no growing list, or a sandbox that is there already.
        ValueError: a command failed, a second run changed something, or a third was not left out.
    """
    sizes = _sizes(args)
    walls, cpus = {}, {}
    with sandboxes.sandbox(args.name) as inventory:
        run = ("provision", "-i", str(inventory), "--skip-tags", "validation")
        for size in sizes:
            sandboxes.busbar("sandbox", "up", "--name", args.name, "--compute", str(size))
            sandboxes.busbar(*run)
            full = sandboxes.timed(*run)
            changed = [host for host, (_ran, changes) in sandboxes.recap(full.said).items() if changes]
            if changed:
                message = f"the second run at {size} nodes changed something on {', '.join(changed)}: {run}"
                raise ValueError(message)
            spent = sandboxes.timed(*run)
            if _LEFT_OUT not in spent.said:
                message = f"the third run at {size} nodes was not left out: {spent.said[-2000:]}"
                raise ValueError(message)
            walls[size], cpus[size] = spent.wall, spent.cpu
            yield Figure("wall", round(spent.wall, 1), "s", size)
            yield Figure("provisioning_host_cpu", round(spent.cpu, 1), "s", size)
            yield Figure("full_wall", round(full.wall, 1), "s", size)
            yield Figure("full_cpu", round(full.cpu, 1), "s", size)
    if len(sizes) > 1:
        further = sizes[-1] - sizes[0]
        yield Figure("wall_per_further_node", round((walls[sizes[-1]] - walls[sizes[0]]) / further, 2), "s")
        yield Figure("cpu_per_further_node", round((cpus[sizes[-1]] - cpus[sizes[0]]) / further, 2), "s")


def _sizes(args: argparse.Namespace) -> list[int]:
    return sandboxes.sizes(str(args.sizes), 1, "2,4,8,16")
