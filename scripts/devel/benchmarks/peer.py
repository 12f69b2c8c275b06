"""Runs another playbook that installs Slurm on the fresh nodes of a sandbox, twice, and busbar on as many fresh nodes.

Nothing of the other is kept here: its playbook and its roles are those of whoever measures, found as Ansible finds them
(`ANSIBLE_ROLES_PATH`). busbar brings up the whole site without its validation, which is more than Slurm.
"""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING

from busbar.errors import UsageError

from devel import sandboxes
from devel.measured import Figure, Needs

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

__all__ = ["CHART", "GOALS", "add_options", "measure", "needs"]

GOALS = ()
CHART = None
_PLAYBOOK_S = 3600


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add what can be chosen."""
    parser.add_argument("--playbook", required=True, metavar="FILE", help="playbook of the other, for these groups")
    sandboxes.add_compute(parser, 2)
    sandboxes.add_name(parser)


def needs(args: argparse.Namespace) -> Needs:
    """What the sandbox takes.

    Raises:
        UsageError: the playbook is not there.
    """
    if not Path(args.playbook).is_file():
        message = f"--playbook: {args.playbook}: there is no such file"
        raise UsageError(message)
    return sandboxes.needs(sandboxes.compute(args), "--compute")


def measure(args: argparse.Namespace) -> Iterator[Figure]:
    """First and second run of both.

    Raises:
        UsageError: no such number of nodes, or a sandbox that is there already.
        ValueError: a run failed.
    """
    up = ("sandbox", "up", "--name", args.name, "--compute", str(sandboxes.compute(args)))
    with sandboxes.sandbox(args.name) as inventory:
        sandboxes.busbar(*up)
        peer = [_played(Path(args.playbook).resolve(), inventory) for _ in range(2)]
        sandboxes.busbar("sandbox", "down", "--name", args.name)
        sandboxes.busbar(*up)
        provision = ("provision", "-i", str(inventory), "--skip-tags", "validation")
        own = [sandboxes.timed(*provision) for _ in range(2)]
    for name, runs in (("peer", peer), ("busbar", own)):
        for run, spent in zip(("first", "second"), runs, strict=True):
            yield Figure(f"{name}_{run}", round(spent.wall, 1), "s")
            yield Figure(f"{name}_{run}_cpu", round(spent.cpu, 1), "s")
            changed = sum(count for _, count in sandboxes.recap(spent.said).values())
            yield Figure(f"{name}_{run}_changed", changed, "tasks")


def _played(playbook: Path, inventory: Path) -> sandboxes.Spent:
    """Run a playbook as its users would, in its own folder.

    Raises:
        ValueError: it failed.
    """
    command = ["ansible-playbook", "-i", str(inventory), str(playbook)]
    began, used = time.monotonic(), sandboxes.cpu()
    done = subprocess.run(
        command,
        check=False,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=playbook.parent,
        env=os.environ | {"ANSIBLE_FORCE_COLOR": "0", "ANSIBLE_NOCOLOR": "1"},
        timeout=_PLAYBOOK_S,
    )
    spent = sandboxes.Spent(time.monotonic() - began, sandboxes.cpu() - used, done.stdout)
    if done.returncode:
        message = f"{playbook.name} ended with {done.returncode}: {done.stdout[-2000:]}"
        raise ValueError(message)
    return spent
