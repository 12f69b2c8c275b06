"""Runs a playbook on many simulated hosts, to measure only the work of the provisioning host.

The connection plugin `instant` returns the module results of a healthy node. Everything else is real: the inventory,
the roles, templates and filters, and a process for each task on each host. SSH is not included. The hosts have no GPUs,
and the secrets of the cluster do not exist yet, as in a first run.
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
from busbar.paths import collection, collections_root

from devel.benchmark_figures import Figure, Goal, growth

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

GOALS = (Goal("cpu_growth", "<=", 1.05), Goal("peak_memory", "<=", 4096, at=1024))
PLAYBOOKS = {
    "preflight": "busbar.cluster.preflight",
    "base": "busbar.cluster.base",
    "authorities": str(Path(__file__).with_name("authorities.yml")),
}
_LEAST, _MOST = 3, 10_000
_MOST_FORKS = 1000
_LOOK_S = 0.5


class _Cost(NamedTuple):
    wall: float
    cpu: float
    peak_mib: float


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument("--hosts", default="16,64,256,1024", metavar="N,…", help="default 16,64,256,1024")
    parser.add_argument(
        "--playbook",
        default="preflight",
        metavar="NAME",
        help="preflight (default), base, or authorities: the SSH and TLS certificates of all hosts",
    )
    parser.add_argument("--forks", default="10", metavar="N,…", help="forks to measure for each size; default 10")


def measure(args: argparse.Namespace) -> Iterator[Figure]:
    """Yield the figures of one run for each size.

    Raises:
        UsageError: a size is invalid, or the playbook does not exist.
        ValueError: the playbook failed.
    """
    if args.playbook not in PLAYBOOKS:
        message = f"--playbook: {args.playbook!r} is not one of {', '.join(PLAYBOOKS)}"
        raise UsageError(message)
    forks = [whole("--forks", text, 1, _MOST_FORKS) for text in args.forks.split(",")]
    for number in forks:
        costs = {size: _run(args.playbook, size, number) for size in _sizes(args)}
        of = f"_forks_{number}" if len(forks) > 1 else ""
        for size, cost in costs.items():
            yield Figure(f"cpu{of}", round(cost.cpu, 2), "s", at=size)
            yield Figure(f"wall{of}", round(cost.wall, 2), "s", at=size)
            yield Figure(f"cpu_per_host{of}", round(1000 * cost.cpu / size), "ms", at=size)
            yield Figure(f"peak_memory{of}", round(cost.peak_mib), "MiB", at=size)
        if len(costs) > 1:
            # At the two largest sizes the fixed costs of a run are lowest.
            largest = sorted(costs)[-2:]
            yield Figure(f"cpu_growth{of}", growth({size: costs[size].cpu for size in largest}), "exponent")


def _sizes(args: argparse.Namespace) -> list[int]:
    sizes = [whole("--hosts", text, _LEAST, _MOST) for text in args.hosts.split(",")]
    if len(set(sizes)) < len(sizes):
        message = f"--hosts: {args.hosts!r} contains a duplicate"
        raise UsageError(message)
    return sizes


def inventory(count: int) -> dict[str, object]:
    """Return the inventory of a cluster: one controller, one login node, and compute nodes."""
    nodes = {
        f"gpu{i:05}": {"ansible_host": f"10.{100 + i // 65536}.{i // 256 % 256}.{i % 256}"} for i in range(count - 2)
    }
    controller: dict[str, object] = {"hosts": {"ctl": None}}
    return {
        "all": {
            "vars": {
                "ansible_connection": "instant",
                "ansible_python_interpreter": "/usr/bin/python3",
                "cluster_name": "benchmark",
                "cluster_networks": ["10.0.0.0/8"],
                "hosts_timezone": "",
                "preflight_gpu": False,
                "validation_image": "docker://registry.example#nccl-tests",
            },
            "hosts": {"ctl": {"ansible_host": "10.0.0.10"}, "login": {"ansible_host": "10.0.0.11"}},
            "children": {
                "slurm_controller": controller,
                "slurm_database": controller,
                "monitoring": controller,
                "nfs_server": controller | {"vars": {"nfs_server_exports": [{"path": "/shared"}]}},
                "slurm_login": {"hosts": {"login": None}},
                "nfs_client": {"hosts": {"login": None}, "children": {"slurm_compute": None}},
                "slurm_compute": {"children": {"dgx_h100": None}},
                "dgx_h100": {"hosts": nodes, "vars": {"hardware": "dgx_h100"}},
            },
        }
    }


def _run(playbook: str, size: int, forks: int) -> _Cost:
    """Run a playbook in a new site and return its cost."""
    with tempfile.TemporaryDirectory(prefix="busbar-benchmark-") as name:
        site = Path(name)
        (site / "inventory").mkdir()
        (site / "inventory/hosts.yml").write_text(yaml.safe_dump(inventory(size)), encoding="utf-8")
        (site / "ansible.cfg").write_text((collection() / "ansible.cfg").read_text("utf-8"), encoding="utf-8")
        with (site / "said").open("wb") as output:
            process = subprocess.Popen(
                [f"{Path(sys.executable).parent}/ansible-playbook", "-i", "inventory", PLAYBOOKS[playbook]],
                cwd=site,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env={
                    **os.environ,
                    "ANSIBLE_COLLECTIONS_PATH": str(collections_root()),
                    "ANSIBLE_CONFIG": str(site / "ansible.cfg"),
                    "ANSIBLE_CONNECTION_PLUGINS": str(Path(__file__).parent / "connection"),
                    "ANSIBLE_FORKS": str(forks),
                    "ANSIBLE_PIPELINING": "1",
                },
            )
            code, cost = _watched(process.pid)
            process.returncode = code
        if code:
            text = (site / "said").read_text("utf-8", "replace")
            lines = [
                line.strip() for line in text.splitlines() if "msg:" in line or "ERROR" in line or "problem:" in line
            ]
            message = f"{playbook} on {size} hosts failed with exit code {code}: {' '.join(lines[:3]) or text[-300:]}"
            raise ValueError(message)
    return cost


def _watched(leader: int) -> tuple[int, _Cost]:
    """Wait for a session leader and return its exit code and the cost; kill the session on an exception."""
    began, peak = time.monotonic(), 0
    try:
        while True:
            pid, status, used = os.wait4(leader, os.WNOHANG)
            if pid:
                cpu = used.ru_utime + used.ru_stime
                return os.waitstatus_to_exitcode(status), _Cost(time.monotonic() - began, cpu, peak / 1024)
            peak = max(peak, _memory_kib(leader))
            time.sleep(_LOOK_S)
    except BaseException:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(leader, signal.SIGKILL)
        raise


def _memory_kib(session: int) -> int:
    """Return the memory of all processes of a session in KiB; shared memory counts once."""
    total = 0
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, IndexError, ValueError):
            if os.getsid(int(folder.name)) != session:
                continue
            for line in (folder / "smaps_rollup").read_text(encoding="ascii").splitlines():
                if line.startswith("Pss:"):
                    total += int(line.split()[1])
    return total
