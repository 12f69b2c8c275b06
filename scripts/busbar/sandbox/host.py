"""Container runtime, limits and prerequisites of this host."""

from __future__ import annotations

import ctypes
import errno
import os
import resource
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from busbar.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

CGROUP = Path("/sys/fs/cgroup")
PODMAN_NOFILE = 1048576
# Sufficient for all jobs here. Without CAP_SYS_RESOURCE the runtime cannot set the hard limit of this process.
NODE_PROCESSES = 20000
# inotify instances of systemd and its services per node: five were measured, plus one for a user session.
NODE_WATCHERS = 6
# GiB of a provisioned node and of the images. Measured on Debian 13: 0.63 (mean of controller, login and two compute
# nodes) and 0.31 (base image and image).
NODE_GIB = 0.75
IMAGES_GIB = 1.0
_TOOLS = {
    "podman": "podman",
    "mmdebstrap": "mmdebstrap",
    "ip": "iproute2",
    "tc": "iproute2",
    "nsenter": "util-linux",
    "iptables": "iptables",
    "ssh-keygen": "openssh-client",
}


def run(*command: str, check: bool = True, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
    """Run a program on the host and return the completed process.

    Raises:
        UsageError: the program failed and `check` is true; contains the last line of its error output.
    """
    done = subprocess.run(command, check=False, capture_output=True, text=True, input=stdin)
    if check and done.returncode:
        last = (done.stderr.strip() or done.stdout.strip() or "no output").splitlines()[-1]
        msg = f"{' '.join(command[:3])} failed ({done.returncode}): {last}"
        raise UsageError(msg)
    return done


def podman(*arguments: str, check: bool = True, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
    """Run podman; see `run`."""
    return run("podman", *arguments, check=check, stdin=stdin)


def choose_runtime(cgroup: Path = CGROUP, which: object = shutil.which) -> str:
    """Return the name of the OCI runtime that can start system containers on this host.

    crun fails on hosts that mount cgroup v1 controllers in addition to a v2 tree; runc supports both.

    Raises:
        UsageError: no suitable runtime is installed.
    """
    find = which if callable(which) else shutil.which
    unified = (cgroup / "cgroup.controllers").is_file()
    candidates = ("crun", "runc") if unified else ("runc",)
    for name in candidates:
        if find(name):
            return name
    kind = "cgroup v2" if unified else "cgroup v1"
    msg = f"this host ({kind}) needs the container runtime {' or '.join(candidates)}: apt-get install {candidates[-1]}"
    raise UsageError(msg)


def ulimits() -> list[str]:
    """Return podman options that keep the nodes' limits within the limits of this host."""
    hard_files = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    hard_processes = resource.getrlimit(resource.RLIMIT_NPROC)[1]
    files = PODMAN_NOFILE if hard_files == resource.RLIM_INFINITY else min(PODMAN_NOFILE, hard_files)
    options = [f"--ulimit=nofile={files}:{files}"]
    if hard_processes != resource.RLIM_INFINITY:
        processes = min(NODE_PROCESSES, hard_processes)
        options.append(f"--ulimit=nproc={processes}:{processes}")
    return options


def check_host() -> None:
    """Check the prerequisites and report all missing ones in one line.

    Raises:
        UsageError: not root, or tools are missing.
    """
    if os.geteuid() != 0:
        msg = "the sandbox starts system containers and requires root: run it with sudo"
        raise UsageError(msg)
    path = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
    missing = sorted({package for tool, package in _TOOLS.items() if not shutil.which(tool, path=path)})
    if missing:
        packages = " ".join(missing)
        msg = f"the sandbox requires {packages}: run scripts/setup --sandbox, or apt-get install {packages}"
        raise UsageError(msg)
    choose_runtime()


def check_disk(nodes: int) -> None:
    """Check that podman's storage has space for more nodes and their image.

    Raises:
        UsageError: too little space is left.
    """
    folder = podman("info", "--format", "{{.Store.GraphRoot}}").stdout.strip()
    free, need = shutil.disk_usage(folder).free / 2**30, IMAGES_GIB + nodes * NODE_GIB
    if nodes and free < need:
        msg = f"{folder}: too little space for {nodes} more nodes (found {free:.1f} GiB, expected {need:.1f} GiB). "
        msg += "Remedy: podman image prune, or remove another sandbox (busbar sandbox down --name NAME)"
        raise UsageError(msg)


def check_watchers(nodes: int, open_one: Callable[[], int] | None = None) -> None:
    """Check that enough inotify instances are left for more nodes, without which systemd hangs silently during boot.

    Args:
        nodes: number of nodes to boot.
        open_one: opens an instance and returns its descriptor, or -1; by default the system call.

    Raises:
        UsageError: too few instances are left; names the setting and a command.
    """
    opened: list[int] = []
    try:
        for _ in range(nodes * NODE_WATCHERS):
            descriptor = (open_one or _inotify)()
            if descriptor < 0:
                limit = Path("/proc/sys/fs/inotify/max_user_instances").read_text(encoding="ascii").strip()
                need = nodes * NODE_WATCHERS
                setting = "fs.inotify.max_user_instances"
                msg = f"{nodes} more nodes need {need} inotify instances and only {len(opened)} of {setting}={limit} "
                msg += f"are free: sysctl -w {setting}={int(limit) + max(128, need)}, or remove another sandbox "
                msg += "(busbar sandbox down --name NAME)"
                raise UsageError(msg)
            opened.append(descriptor)
    finally:
        for descriptor in opened:
            os.close(descriptor)


def _inotify() -> int:
    library = ctypes.CDLL(None, use_errno=True)
    descriptor = int(library.inotify_init1(os.O_CLOEXEC))
    # Only EMFILE means that no instance is left; ignore other errors, such as on hosts without inotify.
    return descriptor if descriptor >= 0 or ctypes.get_errno() == errno.EMFILE else os.open(os.devnull, os.O_RDONLY)
