"""Detect which process holds the package manager's lock, and let a module report that it is waiting.

A module cannot print while it runs. It waits briefly, then exits with the lock holder in its result; the action plugin
on the provisioning host prints that and runs the module again.
"""

from __future__ import annotations

import fcntl
import os
import re
import struct
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = [
    "LIMIT_S",
    "LOCK_PATIENCE_S",
    "Holder",
    "first_holder",
    "holder_text",
    "is_lock_failure",
    "lock_holder",
    "over_limit_text",
    "wait_for_lock",
]

# Total time that a run waits for another package manager, see README.md.
LIMIT_S = 300
# Time that a module waits before it reports the holder.
LOCK_PATIENCE_S = 15
POLL_S = 1.0
# fcntl(2) locks of dpkg, of apt's lists and archives, and of rpm.
LOCKS = (
    *("/var/lib/dpkg/lock-frontend", "/var/lib/dpkg/lock", "/var/lib/apt/lists/lock", "/var/cache/apt/archives/lock"),
    *("/var/lib/rpm/.rpm.lock", "/usr/lib/sysimage/rpm/.rpm.lock"),
)
# dnf's lock files contain the PID of their owner; like dnf, ignore those of dead processes.
PID_FILES = ("/var/cache/dnf/metadata_lock.pid", "/var/cache/dnf/download_lock.pid", "/var/lib/dnf/rpmdb_lock.pid")
# struct flock of 64-bit Linux: type, whence, start, length, PID.
_FLOCK = "hhqqi4x"
_LONGEST = 100
_LOCKED = re.compile(r"Could not get lock|Unable to lock directory|lock was locked by another process")
# Exit status of dnf if another process holds its lock: dnf(8), "Exit status".
DNF_LOCKED = 200


class Holder(TypedDict):
    """A lock and the process that holds it; 0 and '' if the process is not visible."""

    lock: str
    pid: int
    process: str
    command: str


def lock_pid(path: Path) -> int | None:
    """Return the PID that holds an fcntl(2) lock, 0 if it is not visible, or None if the lock is free."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        query = struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
        kind, _, _, _, pid = struct.unpack(_FLOCK, fcntl.fcntl(descriptor, fcntl.F_GETLK, query))
    except OSError:
        return None
    finally:
        os.close(descriptor)
    return None if kind == fcntl.F_UNLCK else max(int(pid), 0)


def noted_pid(path: Path, proc: Path = Path("/proc")) -> int | None:
    """Return the PID in a lock file of dnf if it is another live process, or None."""
    try:
        pid = int(path.read_text(encoding="ascii"))
    except (OSError, ValueError):
        return None
    return pid if pid not in {0, os.getpid()} and (proc / str(pid) / "stat").exists() else None


def _read_text(path: Path) -> str:
    """Return the text of a file in /proc on one line, without control characters."""
    try:
        text = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""
    return "".join(char for char in " ".join(text.split()) if char.isprintable())[:_LONGEST]


def first_holder(root: Path = Path("/")) -> Holder | None:
    """Return the first package manager lock that is held, or None."""
    for find, paths in ((lock_pid, LOCKS), (noted_pid, PID_FILES)):
        for path in paths:
            pid = find(root / path.lstrip("/"))
            if pid is not None:
                place = Path("/proc", str(pid))
                process, command = (_read_text(place / name) if pid else "" for name in ("comm", "cmdline"))
                return {"lock": path, "pid": pid, "process": process, "command": command}
    return None


def lock_holder(
    patience_s: float = LOCK_PATIENCE_S,
    find: Callable[[], Holder | None] = first_holder,
    sleep: Callable[[float], None] = time.sleep,
) -> Holder | None:
    """Return the holder of a lock after waiting `patience_s` seconds, or None when all locks are free."""
    waited = 0.0
    while True:
        holder = find()
        if holder is None or waited >= patience_s:
            return holder
        sleep(POLL_S)
        waited += POLL_S


def is_lock_failure(command: Sequence[str], status: int, output: str) -> bool:
    """Return whether a package manager failed because another one was running."""
    if status == 0:
        return False
    return (command[0] == "dnf" and status == DNF_LOCKED) or _LOCKED.search(output) is not None


def holder_text(holder: Holder) -> str:
    """Describe the holder of a lock, as part of a sentence."""
    if not holder["process"]:
        return f"{holder['lock']} is held by a process that is not visible on this host"
    command = f": {holder['command']}" if holder["command"] else ""
    return f"{holder['lock']} is held by {holder['process']} (pid {holder['pid']}{command})"


def over_limit_text(holder: Holder, limit_s: float = LIMIT_S) -> str:
    """Return the error message after a timeout."""
    remedy = "wait for it or stop it (unattended-upgrades: systemctl stop unattended-upgrades), and run again"
    return (
        f"the package manager was busy for {round(limit_s)} s. Nothing was installed: {holder_text(holder)}\n"
        f"    remedy: {remedy}"
    )


def wait_for_lock(module: Any, holder: Holder | None) -> None:  # noqa: ANN401 - Ansible has no types
    """Fail the module if a process holds the lock; the result contains the holder."""
    if holder is not None:
        module.fail_json(msg=f"the package manager is busy: {holder_text(holder)}", waits_for=holder)
