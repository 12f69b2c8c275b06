"""Runs a playbook on many hosts that answer at once, shared out over several processes of this machine.

As `controller`, by the same inventory and connection, through `busbar provision --slices`. 1 is a run without that
option.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import yaml
from busbar.errors import UsageError
from busbar.option_values import whole
from busbar.paths import collection

from devel.benchmarks.controller import PLAYBOOKS, inventory
from devel.measured import Chart, Figure, Needs

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

__all__ = ["CHART", "GOALS", "add_options", "measure", "needs"]

GOALS = ()
CHART = Chart("One run in slices", ("wall", "cpu"), "slices")
_LEAST, _MOST, _MOST_SLICES = 4, 10_000, 64
_FORKS = 10
_LOOK_S = 1.0


class _Cost(NamedTuple):
    wall: float
    cpu: float
    peak_mib: float


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add what can be chosen."""
    parser.add_argument("--hosts", default="1024", metavar="N", help="default 1024")
    parser.add_argument("--slices", default="1,2,4", metavar="N,…", help="1 for one process; default 1,2,4")
    parser.add_argument("--playbook", default="preflight", metavar="NAME", help="preflight (default) or base")
    parser.add_argument("--tags", default="", metavar="TAGS", help="only what has these tags")


def needs(args: argparse.Namespace) -> Needs:
    """What this size takes."""
    return Needs(memory_mib=1000 + 2 * _hosts(args), disk_mib=100, smaller="--hosts")


def measure(args: argparse.Namespace) -> Iterator[Figure]:
    """The figures of one run for each number of slices.

    Raises:
        UsageError: a number or the playbook is none.
        ValueError: the playbook failed.
    """
    if args.playbook not in PLAYBOOKS:
        message = f"--playbook: {args.playbook!r} is none of {', '.join(PLAYBOOKS)}"
        raise UsageError(message)
    hosts = _hosts(args)
    numbers = [whole("--slices", text, 1, min(_MOST_SLICES, hosts - 3)) for text in args.slices.split(",")]
    costs = {
        number: _run([args.playbook, *(["--tags", args.tags] if args.tags else [])], hosts, number)
        for number in dict.fromkeys(numbers)
    }
    for number, cost in costs.items():
        yield Figure("wall", round(cost.wall, 1), "s", at=number)
        yield Figure("cpu", round(cost.cpu, 1), "s", at=number)
        yield Figure("peak_memory", round(cost.peak_mib), "MiB", at=number)
    if len(costs) > 1:
        least, most = min(costs), max(costs)
        ratio = costs[most].cpu / costs[least].cpu
        yield Figure("cpu_ratio", round(ratio, 2), f"of cpu, {most} slices to {least}")


def _hosts(args: argparse.Namespace) -> int:
    return whole("--hosts", args.hosts, _LEAST, _MOST)


def _run(what: list[str], hosts: int, slices: int) -> _Cost:
    """What a run costs, in a site of its own."""
    with tempfile.TemporaryDirectory(prefix="busbar-benchmark-") as name:
        site = Path(name)
        (site / "inventory").mkdir()
        (site / "inventory/hosts.yml").write_text(yaml.safe_dump(inventory(hosts)), encoding="utf-8")
        (site / "ansible.cfg").write_text((collection() / "ansible.cfg").read_text("utf-8"), encoding="utf-8")
        words = ["provision", *what, "-i", "inventory", *(["--slices", str(slices)] if slices > 1 else [])]
        with (site / "said").open("wb") as said:
            process = subprocess.Popen(
                [f"{Path(sys.executable).parent}/busbar", *words],
                cwd=site,
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=subprocess.STDOUT,
                env={
                    **os.environ,
                    "ANSIBLE_CONNECTION_PLUGINS": str(Path(__file__).parent / "connection"),
                    "ANSIBLE_FORKS": str(_FORKS),
                    "ANSIBLE_PIPELINING": "1",
                },
            )
            code, cost = _watched(process.pid)
            process.returncode = code
        if code:
            told = (site / "said").read_text("utf-8", "replace")
            message = f"{what[0]} on {hosts} hosts in {slices} slices ended with code {code}: {told[-600:]}"
            raise ValueError(message)
    return cost


def _watched(top: int) -> tuple[int, _Cost]:
    """The exit code of a process, and what it and all that it started cost."""
    began, peak = time.monotonic(), 0
    try:
        while True:
            pid, status, used = os.wait4(top, os.WNOHANG)
            if pid:
                cpu = used.ru_utime + used.ru_stime
                return os.waitstatus_to_exitcode(status), _Cost(time.monotonic() - began, cpu, peak / 1024)
            peak = max(peak, sum(map(_memory_kib, _family(top))))
            time.sleep(_LOOK_S)
    except BaseException:
        # It ends its slices itself.
        with contextlib.suppress(ProcessLookupError):
            os.kill(top, signal.SIGTERM)
        raise


def _family(top: int) -> set[int]:
    """A process and all that it started, as far as they are still its own."""
    parents: dict[int, list[int]] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, IndexError, ValueError):
            # The name of a program, in brackets, may hold anything.
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            parents.setdefault(parent, []).append(int(folder.name))
    found, left = set[int](), [top]
    while left:
        found.add(left[-1])
        left += [child for child in parents.get(left.pop(), []) if child not in found]
    return found


def _memory_kib(process: int) -> int:
    """Memory of a process; what it shares counts once over all."""
    with contextlib.suppress(OSError, IndexError, ValueError):
        for line in Path(f"/proc/{process}/smaps_rollup").read_text(encoding="ascii").splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1])
    return 0
