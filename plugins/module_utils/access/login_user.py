"""Find the user who logged in to a host, even after su or sudo."""

from __future__ import annotations

import grp
import os
import pwd
from pathlib import Path

__all__ = ["groups_of", "login_user"]

PROC = Path("/proc")


def login_user(proc: Path = PROC, pid: int | None = None) -> pwd.struct_passwd:
    """Return the user of the outermost ancestor process that does not run as root; root if all do.

    sudo sets environment variables that name the calling user; su does not, and users can change variables.
    """
    found = 0
    current = os.getpid() if pid is None else pid
    while current > 1:
        parent, uid = _parent_and_uid(proc / str(current) / "status")
        found = uid or found
        current = parent
    try:
        return pwd.getpwuid(found)
    except KeyError:
        return pwd.getpwuid(0)


def groups_of(user: pwd.struct_passwd) -> list[str]:
    """Return the names of a user's groups, the primary group first, without GIDs that have no name."""
    names = []
    for gid in os.getgrouplist(user.pw_name, user.pw_gid):
        try:
            names.append(grp.getgrgid(gid).gr_name)
        except KeyError:
            continue
    return names


def _parent_and_uid(status: Path) -> tuple[int, int]:
    """Return parent PID and real UID of a process, or (0, 0) if it has exited."""
    try:
        lines = dict(line.split(":", 1) for line in status.read_text().splitlines() if ":" in line)
        return int(lines["PPid"]), int(lines["Uid"].split()[0])
    except (OSError, KeyError, ValueError):
        return 0, 0
