"""Collects the metrics of a large cluster as the service on a controller does, from what Slurm's commands would print.

The commands print text made beforehand, so that all but slurmctld and its clients is measured: the reading, the
series and the writing. It runs in a process of its own, which measures itself.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ansible_collections.busbar.cluster.plugins.module_utils.slurm.collect import Collector, Settings, write
from busbar.option_values import whole
from busbar.paths import collection

from devel.measured import Figure, Needs, peak_kib

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator
    from types import ModuleType

__all__ = ["CHART", "GOALS", "add_options", "measure", "needs"]

GOALS = ()
CHART = None

_MOST = 1_000_000
_CYCLES = 3


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add what can be chosen."""
    parser.add_argument("--nodes", default="1000", metavar="N", help="nodes with 8 GPUs each; default 1000")
    parser.add_argument("--jobs", default="10000", metavar="N", help="jobs, of which one in ten runs; default 10000")


def needs(args: argparse.Namespace) -> Needs:
    """What this size takes."""
    nodes, jobs = (whole(f"--{name}", getattr(args, name), 0, _MOST) for name in ("nodes", "jobs"))
    size = 100 + nodes // 20 + jobs // 200
    return Needs(memory_mib=size, disk_mib=size, smaller="--nodes")


def measure(args: argparse.Namespace) -> Iterator[Figure]:
    """The figures of one cycle, the last of several.

    Raises:
        UsageError: a number is no whole number.
        ValueError: what was written does not tell of all nodes and jobs.
    """
    nodes = whole("--nodes", args.nodes, 1, _MOST)
    jobs = whole("--jobs", args.jobs, 0, _MOST)
    with tempfile.TemporaryDirectory(prefix="busbar-benchmark-") as folder:
        _make_commands(Path(folder), nodes, jobs)
        done = subprocess.run(
            [sys.executable, "-m", __name__, folder],
            check=False,
            stdout=subprocess.PIPE,
            env={**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"},
        )
        if done.returncode:
            message = f"the process that collects ended with code {done.returncode}"
            raise ValueError(message)
        answer: dict[str, Any] = json.loads(done.stdout)
        text = (Path(folder) / "busbar_slurm.prom").read_text(encoding="utf-8")
        asked = sum((Path(folder) / name).stat().st_size for name in ("nodes", "jobs"))
    yield Figure("slurm_output", round(asked / 1e6, 2), "MB")
    yield Figure("wall", round(answer["seconds"], 3), "s")
    yield Figure("cpu", round(answer["cpu_seconds"], 3), "s")
    yield Figure("peak_memory", round(answer["peak_kib"] / 1024, 1), "MiB")
    yield Figure("file", round(len(text) / 1e6, 3), "MB")
    yield Figure("series", sum(1 for line in text.splitlines() if not line.startswith("#")), "series")
    counted = sum(float(line.rsplit(" ", 1)[1]) for line in text.splitlines() if line.startswith("busbar_slurm_jobs{"))
    if counted != jobs or text.count("busbar_slurm_node_gpus{") != nodes:
        message = f"not all is told of: {counted:.0f} jobs, {text.count('busbar_slurm_node_gpus{')} nodes"
        raise ValueError(message)


def _make_commands(folder: Path, nodes: int, jobs: int) -> None:
    """Put what Slurm would print, and commands that print it, into a folder."""
    samples = _samples()
    running = min(nodes, jobs // 10)
    busy = {"state": ["ALLOCATED"], "gres_used": "gpu:h100:8(IDX:0-7)", "alloc_cpus": 96, "alloc_idle_cpus": 0}
    listed = [samples.json_node(f"gpu{place + 1:04}", **(busy if place < running else {})) for place in range(nodes)]
    texts = {"nodes": samples.nodes_json(listed), "jobs": samples.queue_text(jobs, nodes), "sdiag.txt": samples.SDIAG}
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    ping = "echo 'Slurmctld(primary) at ctl is UP'"
    scripts = {
        "scontrol": f'case "$*" in ping) {ping};; *) exec cat {folder}/nodes;; esac',
        "squeue": samples.squeue_script(folder / "jobs"),
        "sdiag": f"exec cat {folder}/sdiag.txt",
        "sacctmgr": "echo busbar",
    }
    for name, script in scripts.items():
        (folder / name).write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
        (folder / name).chmod(0o755)


def _samples() -> ModuleType:
    """The recordings that the tests use."""
    place = collection() / "tests" / "fixtures" / "slurm_samples.py"
    spec = importlib.util.spec_from_file_location("slurm_samples", place)
    if spec is None or spec.loader is None:
        message = f"{place} cannot be read"
        raise ValueError(message)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _collect(folder: Path) -> None:
    """Collect a few times, and print what the last time took."""
    file = str(folder / "busbar_slurm.prom")
    collector = Collector(Settings(file=file, controller="ctl"))
    answer = {}
    for _ in range(_CYCLES):
        began, used = time.monotonic(), time.process_time()
        write(file, collector.collect())
        answer = {"seconds": time.monotonic() - began, "cpu_seconds": time.process_time() - used}
    json.dump(answer | {"peak_kib": peak_kib()}, sys.stdout)


if __name__ == "__main__":
    _collect(Path(sys.argv[1]))
