"""Who holds the lock of a host's package manager, and how a module says that it waits for him.

A module cannot write on the screen while it runs. It waits a moment, then ends with what it waits for; the action
behind it, on the provisioning host, says so and runs it again.
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

# How long a run waits for somebody else's package manager in all, as README.md says.
LIMIT_S = 300
# How long a module waits before it says so.
LOCK_PATIENCE_S = 15
POLL_S = 1.0
# Locks by fcntl(2): dpkg's two, apt's of its lists and archives, rpm's.
LOCKS = (
    *("/var/lib/dpkg/lock-frontend", "/var/lib/dpkg/lock", "/var/lib/apt/lists/lock", "/var/cache/apt/archives/lock"),
    *("/var/lib/rpm/.rpm.lock", "/usr/lib/sysimage/rpm/.rpm.lock"),
)
# Locks of dnf: files with the number of the process that made them; dnf, too, takes those of dead ones for nothing.
PID_FILES = ("/var/cache/dnf/metadata_lock.pid", "/var/cache/dnf/download_lock.pid", "/var/lib/dnf/rpmdb_lock.pid")
# struct flock of 64-bit Linux: kind, whence, start, length, process.
_FLOCK = "hhqqi4x"
_LONGEST = 100
_LOCKED = re.compile(r"Could not get lock|Unable to lock directory|lock was locked by another process")
# What dnf ends with when somebody else is at it: dnf(8), "Exit status".
DNF_LOCKED = 200


class Holder(TypedDict):
    """A lock and the process that has it; 0 and '' where the host does not show it."""

    lock: str
    pid: int
    process: str
    command: str


def lock_pid(path: Path) -> int | None:
    """Return which process holds a lock by fcntl(2), 0 when the host does not show it; None when nobody does."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        asked = struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
        kind, _, _, _, pid = struct.unpack(_FLOCK, fcntl.fcntl(descriptor, fcntl.F_GETLK, asked))
    except OSError:
        return None
    finally:
        os.close(descriptor)
    return None if kind == fcntl.F_UNLCK else max(int(pid), 0)


def noted_pid(path: Path, proc: Path = Path("/proc")) -> int | None:
    """Return the living process, other than this one, that a lock file of dnf names; None for none."""
    try:
        pid = int(path.read_text(encoding="ascii"))
    except (OSError, ValueError):
        return None
    return pid if pid not in {0, os.getpid()} and (proc / str(pid) / "stat").exists() else None


def _said(path: Path) -> str:
    """Return the text of a file of /proc on one line, without what a terminal would take for a command."""
    try:
        text = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""
    return "".join(char for char in " ".join(text.split()) if char.isprintable())[:_LONGEST]


def first_holder(root: Path = Path("/")) -> Holder | None:
    """Return the first lock of a package manager that somebody has; None when all are free."""
    for find, paths in ((lock_pid, LOCKS), (noted_pid, PID_FILES)):
        for path in paths:
            pid = find(root / path.lstrip("/"))
            if pid is not None:
                place = Path("/proc", str(pid))
                process, command = (_said(place / name) if pid else "" for name in ("comm", "cmdline"))
                return {"lock": path, "pid": pid, "process": process, "command": command}
    return None


def lock_holder(
    patience_s: float = LOCK_PATIENCE_S,
    find: Callable[[], Holder | None] = first_holder,
    sleep: Callable[[float], None] = time.sleep,
) -> Holder | None:
    """Return who still holds a lock after the patience is over; None as soon as all are free."""
    waited = 0.0
    while True:
        holder = find()
        if holder is None or waited >= patience_s:
            return holder
        sleep(POLL_S)
        waited += POLL_S


def is_lock_failure(command: Sequence[str], status: int, said: str) -> bool:
    """Return whether a package manager failed because another one was at work."""
    if status == 0:
        return False
    return (command[0] == "dnf" and status == DNF_LOCKED) or _LOCKED.search(said) is not None


def holder_text(holder: Holder) -> str:
    """Return who holds which lock, as a part of a sentence."""
    if not holder["process"]:
        return f"{holder['lock']} is held by a process that the host does not show"
    command = f": {holder['command']}" if holder["command"] else ""
    return f"{holder['lock']} is held by {holder['process']} (pid {holder['pid']}{command})"


def over_limit_text(holder: Holder, limit_s: float = LIMIT_S) -> str:
    """Return what to say when the wait was in vain."""
    remedy = "let it end, or end it (unattended-upgrades: systemctl stop unattended-upgrades), and run this again"
    return (
        f"the package manager was busy for {round(limit_s)} s, and nothing was installed: {holder_text(holder)}\n"
        f"    remedy: {remedy}"
    )


def wait_for_lock(module: Any, holder: Holder | None) -> None:  # noqa: ANN401 - Ansible has no types
    """End the module with what it waits for, when there is somebody."""
    if holder is not None:
        module.fail_json(msg=f"the package manager is busy: {holder_text(holder)}", waits_for=holder)
