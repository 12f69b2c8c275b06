"""Find running processes of users; userdel fails while a user has any."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["in_job", "runs_slurmctld", "user_processes"]

PROC = Path("/proc")
_IDS = re.compile(r"^Uid:\s+(\d+)\s+(\d+)\s+(\d+)", re.MULTILINE)
_STATE = re.compile(r"^State:\s+(\S)", re.MULTILINE)
# With cgroup v1 the path in each controller contains job_N. With cgroup v2 jobs are below slurmstepd.scope, or below
# NODE_slurmstepd.scope if slurmd was built for several instances per host; the directory is job_N, or since Slurm 26.05
# the SLUID of the job, unless cgroup.conf has CgroupJobIdPaths=yes (cgroup_v2.c, cgroup_p_step_create).
_JOB = re.compile(r"/job_(\d+)(?:/|$)", re.MULTILINE)
_SCOPE = re.compile(r"/(?:[^/\n]+_)?slurmstepd\.scope/[^/\n]")
# Cgroups that users can name like a job; lines with such paths are ignored.
_OF_USERS = re.compile(r"^.*/user@\d+\.service/.*$", re.MULTILINE)
_JOB_ID = re.compile(rb"(?:^|\0)SLURM_JOB_ID=(\d{1,10})(?:\0|$)")
_MOST = 4


def user_processes(uids: Mapping[str, int], proc: Path = PROC) -> dict[str, list[str]]:
    """Return descriptions of the first few processes of each user; users without processes are omitted."""
    names = {str(uid): name for name, uid in uids.items()}
    found: dict[str, list[str]] = {}
    for folder in sorted(proc.glob("[0-9]*"), key=lambda path: int(path.name)):
        # The process may have exited since the listing.
        with suppress(OSError):
            status = (folder / "status").read_text(errors="replace")
            ids, state = _IDS.search(status), _STATE.search(status)
            owners = {names[uid] for uid in (ids.groups() if ids else ()) if uid in names}
            if state and state[1] in "ZX":
                continue
            for name in owners:
                found.setdefault(name, []).append(_sentence(folder))
    return {name: _shortened(sentences) for name, sentences in found.items()}


def in_job(groups: str) -> bool:
    """Return whether a process belongs to a job, from its ``/proc/PID/cgroup``."""
    groups = _OF_USERS.sub("", groups)
    return bool(_JOB.search(groups) or _SCOPE.search(groups))


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
    return f"process {folder.name} ({command}{_job_words(folder)})"


def _job_words(folder: Path) -> str:
    """Describe the job of a process; if the cgroup path has no job id, read it from the process environment."""
    groups, environment = "", b""
    with suppress(OSError):
        groups = _OF_USERS.sub("", (folder / "cgroup").read_text(errors="replace"))
    if named := _JOB.search(groups):
        return f", job {named[1]}"
    if not in_job(groups):
        return ""
    with suppress(OSError):
        environment = (folder / "environ").read_bytes()
    named_there = _JOB_ID.search(environment)
    return f", job {named_there[1].decode()}" if named_there else ", a job"


def _shortened(sentences: list[str]) -> list[str]:
    left = len(sentences) - _MOST
    return sentences[:_MOST] + ([f"{left} more processes"] if left > 0 else [])
