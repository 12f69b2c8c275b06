"""Finds the processes of users, as userdel does before it refuses to remove one."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["runs_slurmctld", "user_processes"]

PROC = Path("/proc")
_IDS = re.compile(r"^Uid:\s+(\d+)\s+(\d+)\s+(\d+)", re.MULTILINE)
_STATE = re.compile(r"^State:\s+(\S)", re.MULTILINE)
_JOB = re.compile(r"/job_(\d+)(?:/|$)", re.MULTILINE)
_MOST = 4


def user_processes(uids: Mapping[str, int], proc: Path = PROC) -> dict[str, list[str]]:
    """Return what users run, one sentence per process, the first few of each user; users without one are left out."""
    names = {str(uid): name for name, uid in uids.items()}
    found: dict[str, list[str]] = {}
    for folder in sorted(proc.glob("[0-9]*"), key=lambda path: int(path.name)):
        # A process may end while it is looked at.
        with suppress(OSError):
            status = (folder / "status").read_text(errors="replace")
            ids, state = _IDS.search(status), _STATE.search(status)
            owners = {names[uid] for uid in (ids.groups() if ids else ()) if uid in names}
            if state and state[1] in "ZX":
                continue
            for name in owners:
                found.setdefault(name, []).append(_sentence(folder))
    return {name: _shortened(sentences) for name, sentences in found.items()}


def runs_slurmctld(proc: Path = PROC) -> bool:
    """Return whether slurmctld runs on this host."""
    for comm in proc.glob("[0-9]*/comm"):
        with suppress(OSError):
            if comm.read_text(errors="replace").strip() == "slurmctld":
                return True
    return False


def _sentence(folder: Path) -> str:
    command = (folder / "comm").read_text(errors="replace").strip()
    command = "".join(character if character.isprintable() else "?" for character in command)
    job = None
    with suppress(OSError):
        job = _JOB.search((folder / "cgroup").read_text(errors="replace"))
    return f"process {folder.name} ({command}{f', job {job[1]}' if job else ''})"


def _shortened(sentences: list[str]) -> list[str]:
    left = len(sentences) - _MOST
    return sentences[:_MOST] + ([f"{left} more processes"] if left > 0 else [])
