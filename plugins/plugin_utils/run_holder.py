"""Which run of ansible-playbook is at work, told so that another run can see whether it still is."""

from __future__ import annotations

import getpass
import multiprocessing
import os
import socket
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["holder_problem", "own_holder", "process_began"]

# Field 22 of proc(5): when the process began, in ticks since the boot.
_BEGAN = 19


def own_holder() -> dict[str, Any]:
    """Return this run: the process that started the worker which calls this, its host and its user."""
    pid = os.getppid() if multiprocessing.parent_process() else os.getpid()
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = str(os.getuid())
    return {
        "host": socket.gethostname(),
        "pid": pid,
        "began": process_began(pid),
        "user": user,
        "since": int(time.time()),
    }


def holder_problem(holder: Mapping[str, Any] | None) -> str:
    """Return who else is at work; empty when nobody is, or when it is this very run."""
    if not holder:
        return ""
    mine = own_holder()
    if (holder["host"], holder["pid"], holder["began"]) == (mine["host"], mine["pid"], mine["began"]):
        return ""
    who = f"{holder['user']} on {holder['host']} (pid {holder['pid']})"
    if holder["host"] != mine["host"]:
        return f"{who}, which cannot be seen from {mine['host']}"
    return who if holder["began"] and process_began(int(holder["pid"])) == holder["began"] else ""


def process_began(pid: int) -> str:
    """Return when a process began, with the boot of the host; empty when there is none."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="utf-8").strip()
    except OSError:
        return ""
    return f"{boot} {fields[_BEGAN]}" if len(fields) > _BEGAN and fields[0] != "Z" else ""
