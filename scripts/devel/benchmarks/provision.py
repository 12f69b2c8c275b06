"""Provisions and validates fresh nodes, and compares the time with a parallel installation of the same files.

The benchmark determines the result of busbar on the nodes: new packages with versions, and files that no package owns
or that differ from their package. A shell script then installs the same on fresh nodes in parallel over SSH, without
creating a database or checking anything. Because Debian's packages start their services, and slurmd without a
configuration fails only after 90 seconds, the script also runs on nodes where services must not start.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from busbar.sandbox import state

from devel import benchmark_sandbox
from devel.benchmark_figures import Figure, Goal

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

GOALS = (Goal("ratio", "<=", 1.0),)
_PACKAGES = r"dpkg-query -W -f '${binary:Package}=${Version}\n'"
# Files changed since the container's first boot, except the identity of the machine, which podman mounts.
_FILES = r"""
cd /
{ cat /var/lib/dpkg/info/*.list; printf '%s\n' /etc/hosts /etc/hostname /etc/resolv.conf; } | sort -u >/tmp/owned
{
    find /etc /usr /opt /home /root -xdev \( -type f -o -type l \) -cnewer /etc/machine-id \
        ! -path '*/__pycache__/*' | sort -u | comm -23 - /tmp/owned
    dpkg -V | sed -n 's/^..5[^/]*//p'
} >/tmp/files
tar -czf - --ignore-failed-read -T /tmp/files
rm -f /tmp/owned /tmp/files
"""
# https://people.debian.org/~hmh/invokerc.d-policyrc.d-specification.txt: exit status 101 forbids the action.
_NO_STARTS = r"printf '#!/bin/sh\nexit 101\n' >/usr/sbin/policy-rc.d && chmod 755 /usr/sbin/policy-rc.d"
_INSTALL_S = 3600


class Contents(NamedTuple):
    """The packages (name=version) and the archive of files that provisioning added to a node."""

    packages: list[str]
    files: bytes


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    benchmark_sandbox.add_compute(parser)
    benchmark_sandbox.add_name(parser)


def measure(args: argparse.Namespace) -> Iterator[Figure]:
    """Yield both times on the same number of fresh nodes, and their ratio.

    Raises:
        UsageError: the number of nodes is invalid, or the sandbox exists.
        ValueError: a command or the installation failed.
    """
    up = ("sandbox", "up", "--name", args.name, "--compute", str(benchmark_sandbox.compute(args)))
    with benchmark_sandbox.sandbox(args.name) as inventory:
        benchmark_sandbox.busbar(*up)
        fresh = _on_each(state.load(args.name), _PACKAGES)
        spent = benchmark_sandbox.timed("provision", "-i", str(inventory), *benchmark_sandbox.QUICK)
        cluster = state.load(args.name)
        packages, files = _on_each(cluster, _PACKAGES), _on_each(cluster, _FILES)
        added = {
            node: Contents(sorted(set(_lines(packages[node])) - set(_lines(fresh[node]))), files[node])
            for node in cluster.nodes
        }
        benchmark_sandbox.busbar("sandbox", "down", "--name", args.name)
        benchmark_sandbox.busbar(*up)
        limit = _install(state.load(args.name), added)
        benchmark_sandbox.busbar("sandbox", "down", "--name", args.name)
        benchmark_sandbox.busbar(*up)
        _on_each(state.load(args.name), _NO_STARTS)
        least = _install(state.load(args.name), added)
    yield Figure("provision", round(spent.wall, 1), "s")
    yield Figure("provisioning_host_cpu", round(spent.cpu, 1), "s")
    yield Figure("limit", round(limit, 1), "s")
    yield Figure("limit_without_starts", round(least, 1), "s")
    yield Figure("packages", sum(len(content.packages) for content in added.values()), "on all nodes")
    yield Figure("ratio", round(spent.wall / limit, 2), "time of provision / limit")


def install_script(address: str, ssh: list[str], packages: list[str], archive: str) -> str:
    """Return the shell script that installs packages and files on one host."""
    wanted = " ".join(shlex.quote(package) for package in packages)
    install = (
        "apt-get -qq update && DEBIAN_FRONTEND=noninteractive apt-get -qq -y --no-install-recommends "
        f"-o Dpkg::Options::=--force-confold install {wanted}"
    )
    remote = f"{{ {install}; }} >/dev/null </dev/null && tar -xzf - -C /" if packages else "tar -xzf - -C /"
    return f"{shlex.join([*ssh, address, 'sudo sh -c ' + shlex.quote(remote)])} <{shlex.quote(archive)}\n"


def _on_each(cluster: state.Sandbox, command: str) -> dict[str, bytes]:
    """Run a shell command on each node and return the outputs."""
    with ThreadPoolExecutor(len(cluster.nodes)) as pool:
        contents = pool.map(lambda node: benchmark_sandbox.printed(cluster, node, command), cluster.nodes)
        return dict(zip(cluster.nodes, contents, strict=True))


def _lines(printed: bytes) -> list[str]:
    return printed.decode().splitlines()


def _install(cluster: state.Sandbox, added: dict[str, Contents]) -> float:
    """Run the script on all nodes in parallel and return the duration in seconds.

    Raises:
        ValueError: the script failed on a node.
    """
    known = cluster.path / "ssh/known_hosts"
    ssh = ["ssh", "-i", str(cluster.path / "ssh/id_ed25519"), "-o", "IdentitiesOnly=yes", "-o", "BatchMode=yes"]
    ssh += ["-o", f"UserKnownHostsFile={known}", "-l", "admin"]
    with tempfile.TemporaryDirectory() as folder:
        parts = []
        for node, content in added.items():
            archive = Path(folder, f"{node}.tar.gz")
            archive.write_bytes(content.files)
            parts.append(install_script(cluster.address(node), ssh, content.packages, str(archive)))
        script = Path(folder, "install.sh")
        started = "".join(f'{part.rstrip()} &\npids="$pids $!"\n' for part in parts)
        script.write_text(f'pids=\n{started}for pid in $pids; do wait "$pid" || exit 1; done\n', encoding="utf-8")
        print("benchmark: the shell script …", file=sys.stderr, flush=True)
        began = time.monotonic()
        done = subprocess.run(
            ["sh", script], check=False, capture_output=True, text=True, timeout=_INSTALL_S, env=os.environ
        )
        took = time.monotonic() - began
    if done.returncode:
        message = f"the shell script failed with exit code {done.returncode}: {done.stderr[-2000:]}"
        raise ValueError(message)
    return took
