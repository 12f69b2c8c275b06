"""Writes the files that name every node of a large cluster of five kinds of nodes, as the roles write them.

Ansible's own inventory and variables are behind it, so that what is measured is what a run of `provision` does once:
slurm.conf, gres.conf, topology.conf, the block of /etc/hosts, and the targets of Prometheus. It runs in a process of
its own, which measures itself. With --slurmctld a real one of Debian reads them and schedules jobs.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from busbar.option_values import whole

from devel.benchmarks import scratch_slurm
from devel.measured import Figure, Goal, Needs

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

__all__ = ["CHART", "GOALS", "add_options", "inventory", "measure", "needs"]

GOALS = (Goal("cpu", "<=", 10), Goal("peak_memory", "<=", 500), Goal("jobs_scheduled", ">=", 1000))
CHART = None

KINDS = ("dgx_a100", "dgx_b200", "dgx_h100", "dgx_h200", "l40s")
_MOST = 50_000
_SWITCH, _SPINE = 32, 32


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add what can be chosen."""
    parser.add_argument("--nodes", default="10000", metavar="N", help="default 10000, of five kinds, 32 per switch")
    parser.add_argument(
        "--slurmctld",
        action="store_true",
        help="let a slurmctld of Debian's packages read the files, on nodes that it takes to be powered down, "
        "and schedule 1,000 jobs; needs root",
    )


def needs(args: argparse.Namespace) -> Needs:
    """What this size takes."""
    count = whole("--nodes", args.nodes, len(KINDS), _MOST)
    own = 100 + count // 20
    return Needs(memory_mib=own * (2 if args.slurmctld else 1), disk_mib=100, smaller="--nodes")


def measure(args: argparse.Namespace) -> Iterator[Figure]:
    """The figures of one rendering.

    Raises:
        UsageError: the number of nodes is none, or slurmctld cannot be run here.
        ValueError: a file does not name all nodes, or slurmctld refused them.
    """
    count = whole("--nodes", args.nodes, len(KINDS), _MOST)
    if args.slurmctld:
        scratch_slurm.prepare()
    with tempfile.TemporaryDirectory(prefix="busbar-benchmark-") as name:
        folder = Path(name)
        (folder / "hosts.yml").write_text(json.dumps(inventory(count)), encoding="utf-8")
        program = [sys.executable, "-m", "devel.benchmarks.render_files", name]
        done = subprocess.run(program, check=False, stdout=subprocess.PIPE)
        if done.returncode:
            message = f"the process that renders ended with code {done.returncode}"
            raise ValueError(message)
        answer: dict[str, Any] = json.loads(done.stdout)
        yield Figure("inventory_cpu", round(answer["inventory_cpu"], 2), "s")
        yield Figure("cpu", round(answer["cpu"], 2), "s")
        yield Figure("wall", round(answer["wall"], 2), "s")
        yield Figure("peak_memory", round(answer["peak_kib"] / 1024), "MiB")
        for file in sorted(answer["sizes"]):
            yield Figure(file, round(answer["sizes"][file] / 1e3, 1), "kB")
        if args.slurmctld:
            said = scratch_slurm.schedule(folder, count)
            yield Figure("slurmctld_start", round(said.start_s, 1), "s")
            yield Figure("sinfo_nodes", said.nodes, "nodes")
            yield Figure("sinfo", round(said.sinfo_s, 2), "s")
            yield Figure("jobs_scheduled", said.jobs, "jobs")
            yield Figure("schedule", round(said.schedule_s, 1), "s")


def inventory(count: int) -> dict[str, object]:
    """A cluster of so many compute nodes, in equal parts of five kinds, with its switches."""
    parts = [count // len(KINDS) + (place < count % len(KINDS)) for place in range(len(KINDS))]
    nodes: dict[str, dict[str, Any]] = {}
    for place, (kind, part) in enumerate(zip(KINDS, parts, strict=True)):
        name = kind.replace("_", "")
        nodes[kind] = {
            f"{name}-{i:05}": {"ansible_host": f"10.{place + 1}.{i // 250}.{i % 250 + 1}"} for i in range(part)
        }
    names = [name for part in nodes.values() for name in part]
    leaves = [
        {"name": f"leaf{start // _SWITCH}", "nodes": ",".join(names[start : start + _SWITCH])}
        for start in range(0, len(names), _SWITCH)
    ]
    spines = [
        {
            "name": f"spine{start // _SPINE}",
            "switches": ",".join(leaf["name"] for leaf in leaves[start : start + _SPINE]),
        }
        for start in range(0, len(leaves), _SPINE)
    ]
    top = [{"name": "core", "switches": ",".join(spine["name"] for spine in spines)}]
    return {
        "all": {
            "vars": {
                "ansible_connection": "local",
                "cluster_name": "benchmark",
                "slurm_config": scratch_slurm.CONFIG,
                "slurm_gpu_jobs": False,
                "slurm_state_directory": "/run/state",
                "slurm_topology": {"switches": [*leaves, *spines, *top]},
            },
            "hosts": {"ctl": {"ansible_host": scratch_slurm.ADDRESS}},
            "children": {
                "slurm_controller": {"hosts": {"ctl": None}},
                "monitoring": {"hosts": {"ctl": None}},
                "slurm_compute": {"children": dict.fromkeys(KINDS)},
                **{kind: {"hosts": part, "vars": {"hardware": kind}} for kind, part in nodes.items()},
            },
        }
    }
