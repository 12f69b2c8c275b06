"""Who is logged in on a host, also after a change of user."""

from __future__ import annotations

import grp
import os
import pwd
from pathlib import Path

__all__ = ["groups_of", "login_user"]

PROC = Path("/proc")


def login_user(proc: Path = PROC, pid: int | None = None) -> pwd.struct_passwd:
    """Return who logged in: the outermost process on the way to the first one that is not root's, else root.

    sudo tells in its environment who called it; su and others do not, and no variable needs to be believed.
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
    """Return the names of a user's groups, the primary one first; numbers without a name are left out."""
    names = []
    for gid in os.getgrouplist(user.pw_name, user.pw_gid):
        try:
            names.append(grp.getgrgid(gid).gr_name)
        except KeyError:
            continue
    return names


def _parent_and_uid(status: Path) -> tuple[int, int]:
    """Return the parent of a process and the real user who runs it; (0, 0) when it is gone."""
    try:
        lines = dict(line.split(":", 1) for line in status.read_text().splitlines() if ":" in line)
        return int(lines["PPid"]), int(lines["Uid"].split()[0])
    except (OSError, KeyError, ValueError):
        return 0, 0
