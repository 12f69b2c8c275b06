"""Measures a second provisioning run on sandboxes of several sizes on this machine.

The second run must report no change. The measurement excludes the validation, whose duration depends on its tests.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from devel import benchmark_sandbox
from devel.benchmark_figures import Figure

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

GOALS = ()


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument("--sizes", default="2,4,8,16", metavar="N,…", help="compute nodes; default 2,4,8,16")
    benchmark_sandbox.add_name(parser)


def measure(args: argparse.Namespace) -> Iterator[Figure]:
    """Yield the figures of a second run at each size.

    Raises:
        UsageError: the sizes are not in ascending order, or the sandbox exists.
        ValueError: a command failed, or a second run changed something.
    """
    sizes = benchmark_sandbox.sizes(args.sizes)
    walls, cpus = {}, {}
    with benchmark_sandbox.sandbox(args.name) as inventory:
        run = ("provision", "-i", str(inventory), "--skip-tags", "validation")
        for size in sizes:
            benchmark_sandbox.busbar("sandbox", "up", "--name", args.name, "--compute", str(size))
            benchmark_sandbox.busbar(*run)
            spent = benchmark_sandbox.timed(*run)
            changed = [host for host, (_ran, changes) in benchmark_sandbox.recap(spent.output).items() if changes]
            if changed:
                message = f"the second run with {size} nodes was not idempotent on {', '.join(changed)}: {run}"
                raise ValueError(message)
            walls[size], cpus[size] = spent.wall, spent.cpu
            yield Figure("wall", round(spent.wall, 1), "s", size)
            yield Figure("provisioning_host_cpu", round(spent.cpu, 1), "s", size)
    if len(sizes) > 1:
        further = sizes[-1] - sizes[0]
        yield Figure("wall_per_further_node", round((walls[sizes[-1]] - walls[sizes[0]]) / further, 2), "s")
        yield Figure("cpu_per_further_node", round((cpus[sizes[-1]] - cpus[sizes[0]]) / further, 2), "s")
