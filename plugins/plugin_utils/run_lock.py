"""Lock an inventory, so that only one run at a time changes its hosts; the lock file describes its holder.

A rolling update stores the same description on the controller, because another provisioning host may have a separate
copy of the inventory.
"""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import getpass
import json
import multiprocessing
import os
import socket
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .engine.common.printable import printable_lines
from .site_folder import inventory_folder, site_folder

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

READ_ONLY = frozenset({"describe.yml", "health.yml", "preflight.yml"})
# Maps a playbook to the tag of a part that requires no lock if only this part runs. `elevate` writes a file that no
# other run uses, and must work during a long run in an emergency; `backup_verify` changes nothing.
ELEVATION = "elevate"
LOCKLESS_PARTS = {"user.yml": ELEVATION, "backup.yml": "backup_verify"}
OWN_PLAYBOOKS = Path(__file__).resolve().parents[2] / "playbooks"
# Retries, because a process that only probes the lock holds it briefly.
_ATTEMPTS, _PAUSE_S = 5, 0.1
_LARGEST = 1 << 16
_MINUTE = 60
# Index of the start time (clock ticks since boot, field 22 of /proc/PID/stat) among the fields after the command.
BEGAN = 19


class LockedError(RuntimeError):
    """Another run holds the lock; the message names it and the remedy."""


@dataclasses.dataclass(frozen=True)
class Holder:
    """The holder of a lock.

    Attributes:
        host: name of the provisioning host.
        user: the user who started the run.
        pid: the process of ansible-playbook on that host.
        since: seconds since 1970.
        command: the command, without options, which may contain secrets.
        began: boot ID and start time of the process, to detect a reused PID.
    """

    host: str
    user: str
    pid: int
    since: float
    command: str
    began: str = ""

    @classmethod
    def here(cls, command: str = "") -> Holder:
        """Return the description of this run, even in an ansible-playbook worker."""
        pid = os.getppid() if multiprocessing.parent_process() else os.getpid()
        try:
            user = getpass.getuser()
        except (KeyError, OSError):
            user = str(os.getuid())
        behind = os.environ.get("SUDO_USER")
        return cls(
            socket.gethostname(),
            f"{behind} (as {user})" if behind and behind != user else user,
            pid,
            time.time(),
            command,
            _began(pid),
        )

    @classmethod
    def read(cls, text: str) -> Holder | None:
        """Parse the content of a lock file; None if it is invalid."""
        try:
            data = json.loads(text)
            words = {key: " ".join(printable_lines(data[key])) for key in ("host", "user", "command")}
            return cls(pid=int(data["pid"]), since=float(data["since"]), **words)
        except (ValueError, KeyError, TypeError):
            return None

    def __str__(self) -> str:
        """Return a description for messages."""
        minutes = max(0.0, time.time() - self.since) / _MINUTE
        ago = f"{minutes:.0f} min" if minutes < _MINUTE * 2 else f"{minutes / _MINUTE:.0f} h"
        begun = time.strftime("%Y-%m-%d %H:%M:%S %Z", time.localtime(self.since))
        return f"{self.command}, started by {self.user} on {self.host} (pid {self.pid}), since {begun} ({ago})"


def other_run(found: Mapping[str, Any] | None) -> str:
    """Return user, host and PID of a recorded run, or '' if it is this run or has exited.

    A run on another host counts as running, because its process cannot be checked from here.
    """
    if not found:
        return ""
    mine = Holder.here()
    if (found["host"], found["pid"], found["began"]) == (mine.host, mine.pid, mine.began):
        return ""
    words = f"{found['user']} on {found['host']} (pid {found['pid']})"
    if found["host"] != mine.host:
        return f"{words}, whose state cannot be checked from {mine.host}"
    return words if found["began"] and _began(int(found["pid"])) == found["began"] else ""


def _began(pid: int) -> str:
    """Return the boot ID and start time of a process, or '' if it has exited."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="utf-8").strip()
    except OSError:
        return ""
    return f"{boot} {fields[BEGAN]}" if len(fields) > BEGAN and fields[0] != "Z" else ""


def lock_paths(sources: Sequence[str]) -> list[Path]:
    """Return the lock files of an inventory: one per source, in the site folder.

    An inline host list cannot be shared and has no lock.
    """
    found: dict[Path, None] = {}
    for source in sources:
        path = Path(source).absolute()
        if "," in source or not path.exists():
            continue
        folder, site = inventory_folder(path), site_folder(path)
        # In an inventory folder, Ansible would read a file that is not hidden.
        found[site / (".inventory.lock" if folder == site else "inventory.lock")] = None
    return sorted(found)


def needs_no_lock(playbook: Path, tags: Iterable[str] = ()) -> bool:
    """Return whether a playbook of the collection changes nothing, or only files that no other run uses.

    Args:
        playbook: its path.
        tags: the values of `--tags`.
    """
    if playbook.resolve().parent != OWN_PLAYBOOKS:
        return False
    chosen = {tag.strip() for words in tags for tag in words.split(",")}
    return playbook.name in READ_ONLY or chosen == {LOCKLESS_PARTS.get(playbook.name)}


def refuse_if_locked(sources: Sequence[str]) -> None:
    """Check that no run holds the lock of the inventory.

    Raises:
        LockedError: if another run holds it.
    """
    for path in lock_paths(sources):
        if path.is_file():
            with contextlib.suppress(OSError):
                RunLock(path).probe()


class RunLock:
    """The lock of one inventory.

    The kernel releases the lock when the process ends, so a stale lock file of this host has no effect. If another
    host shares the folder, the description in the file shows whether a run of that host holds the lock.
    """

    def __init__(self, path: Path) -> None:
        """Store the path of the lock file."""
        self._path = path
        self._descriptor: int | None = None

    def probe(self) -> None:
        """Check that the lock is free.

        Raises:
            LockedError: if another run holds it.
            OSError: if the file cannot be opened.
        """
        # Another user can read the file, but not write it.
        descriptor = os.open(self._path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            self._claim(descriptor, fcntl.LOCK_SH)
        finally:
            os.close(descriptor)

    def take(self, command: str) -> Holder | None:
        """Acquire the lock until `release` or the end of this process.

        Args:
            command: description of this run for other runs.

        Returns:
            The previous holder, if it exited without releasing the lock.

        Raises:
            LockedError: if another run holds it.
            OSError: if the file cannot be created.
        """
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
        try:
            left = self._claim(descriptor)
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, (json.dumps(dataclasses.asdict(Holder.here(command))) + "\n").encode(), 0)
        except BaseException:
            os.close(descriptor)
            raise
        self._descriptor = descriptor
        # Forked workers must not inherit the lock, because they may outlive a killed run.
        os.register_at_fork(after_in_child=self._close)
        return left

    def release(self) -> None:
        """Release the lock; has no effect in a forked process."""
        if self._descriptor is not None:
            with contextlib.suppress(OSError):
                os.ftruncate(self._descriptor, 0)
        self._close()

    def _close(self) -> None:
        """Close the file, which releases the lock unless another process has it open."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)

    def _claim(self, descriptor: int, kind: int = fcntl.LOCK_EX) -> Holder | None:
        """Lock an open file, and return the holder recorded by an earlier run.

        Raises:
            LockedError: if another run holds it, or may do so on another host.
        """
        locked = _lock(descriptor, kind)
        left = Holder.read(os.pread(descriptor, _LARGEST, 0).decode(errors="replace"))
        if not locked:
            message = (
                f"another run uses this inventory: {left or 'unknown run'}. Wait until it ends. "
                f"--check, preflight, describe and health do not require the lock (lock file: {self._path})."
            )
            raise LockedError(message)
        if left is not None and left.host != socket.gethostname():
            message = (
                f"another host may use this inventory: {left}. This host cannot check whether that process is running. "
                f"Wait until it ends. If it was killed, or {left.host} no longer exists: rm {self._path}"
            )
            raise LockedError(message)
        return left


def _lock(descriptor: int, kind: int) -> bool:
    """Lock an open file, and return whether that succeeded."""
    for _ in range(_ATTEMPTS):
        try:
            fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(_PAUSE_S)
        else:
            return True
    return False
