"""One run at a time changes the hosts of an inventory: a file beside it is locked, and describes the run that holds it.

A rolling update also leaves such a description on the controller: another provisioning host may have its own copy of
the inventory.
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

__all__ = [
    "ELEVATION",
    "OWN_PLAYBOOKS",
    "Holder",
    "LockedError",
    "RunLock",
    "lock_paths",
    "needs_no_lock",
    "other_run",
    "refuse_if_locked",
]

READ_ONLY = frozenset({"describe.yml", "preflight.yml"})
# By playbook the tag of a part that needs no lock when it runs alone. The elevation writes a file that no other run
# touches, and a failure at night does not wait for a run that takes an hour; the other part only reads.
ELEVATION = "elevate"
LOCKLESS_PARTS = {"user.yml": ELEVATION, "backup.yml": "backup_verify"}
OWN_PLAYBOOKS = Path(__file__).resolve().parents[2] / "playbooks"
# Somebody who only looks whether the lock is free holds it for a moment.
_ATTEMPTS, _PAUSE_S = 5, 0.1
_LARGEST = 1 << 16
_MINUTE = 60
# Field 22 of proc(5): when the process began, in ticks since the boot.
_BEGAN = 19


class LockedError(RuntimeError):
    """Somebody else works on the inventory; the message says who, and what to do."""


@dataclasses.dataclass(frozen=True)
class Holder:
    """Who holds a lock.

    Attributes:
        host: name of the provisioning host.
        user: who started the run.
        pid: the process of ansible-playbook on that host.
        since: seconds since 1970.
        command: what was started, without its options, which may hold secrets.
        began: when the process began, with the boot of the host; a later process may have the same number.
    """

    host: str
    user: str
    pid: int
    since: float
    command: str
    began: str = ""

    @classmethod
    def here(cls, command: str = "") -> Holder:
        """Describe this run, also from a worker of ansible-playbook."""
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
        """Who a lock's file says it is, None when it says nothing that makes sense."""
        try:
            data = json.loads(text)
            words = {key: " ".join(printable_lines(data[key])) for key in ("host", "user", "command")}
            return cls(pid=int(data["pid"]), since=float(data["since"]), **words)
        except (ValueError, KeyError, TypeError):
            return None

    def __str__(self) -> str:
        """Return who it is in words."""
        minutes = max(0.0, time.time() - self.since) / _MINUTE
        ago = f"{minutes:.0f} min" if minutes < _MINUTE * 2 else f"{minutes / _MINUTE:.0f} h"
        begun = time.strftime("%Y-%m-%d %H:%M:%S %Z", time.localtime(self.since))
        return f"{self.command}, started by {self.user} on {self.host} (pid {self.pid}), since {begun} ({ago})"


def other_run(found: Mapping[str, Any] | None) -> str:
    """Return the run that a description names, in words; empty if it is this run, or has ended.

    Whether a run of another host has ended cannot be seen from here.
    """
    if not found:
        return ""
    mine = Holder.here()
    if (found["host"], found["pid"], found["began"]) == (mine.host, mine.pid, mine.began):
        return ""
    words = f"{found['user']} on {found['host']} (pid {found['pid']})"
    if found["host"] != mine.host:
        return f"{words}, which cannot be seen from {mine.host}"
    return words if found["began"] and _began(int(found["pid"])) == found["began"] else ""


def _began(pid: int) -> str:
    """Return when a process began, with the boot of the host; empty if it has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="utf-8").strip()
    except OSError:
        return ""
    return f"{boot} {fields[_BEGAN]}" if len(fields) > _BEGAN and fields[0] != "Z" else ""


def lock_paths(sources: Sequence[str]) -> list[Path]:
    """Return the files to lock for an inventory: for each source one in the site's folder, where its secrets are.

    A list of hosts on the command line is no inventory that two could share.
    """
    found: dict[Path, None] = {}
    for source in sources:
        path = Path(source).absolute()
        if "," in source or not path.exists():
            continue
        folder, site = inventory_folder(path), site_folder(path)
        # Where the folder may be an inventory as a whole Ansible must not read the lock; it reads no hidden file.
        found[site / (".inventory.lock" if folder == site else "inventory.lock")] = None
    return sorted(found)


def needs_no_lock(playbook: Path, tags: Iterable[str] = ()) -> bool:
    """Return whether a playbook is one of ours that changes nothing, or only what no other run touches.

    Args:
        playbook: its path.
        tags: the values of `--tags`.
    """
    if playbook.resolve().parent != OWN_PLAYBOOKS:
        return False
    chosen = {tag.strip() for words in tags for tag in words.split(",")}
    return playbook.name in READ_ONLY or chosen == {LOCKLESS_PARTS.get(playbook.name)}


def refuse_if_locked(sources: Sequence[str]) -> None:
    """Look whether a run works on the inventory now.

    Raises:
        LockedError: one does.
    """
    for path in lock_paths(sources):
        if path.is_file():
            with contextlib.suppress(OSError):
                RunLock(path).probe()


class RunLock:
    """The lock of one inventory.

    The kernel releases it when the process ends, in whatever way; so what a killed run of this host left in the file
    holds nobody up. Of another host that shares the folder this cannot be known, and the file's word is taken.
    """

    def __init__(self, path: Path) -> None:
        """Take the path of the file."""
        self._path = path
        self._descriptor: int | None = None

    def probe(self) -> None:
        """See that nobody holds the lock.

        Raises:
            LockedError: somebody does.
            OSError: the file cannot be opened.
        """
        descriptor = os.open(self._path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            self._claim(descriptor)
        finally:
            os.close(descriptor)

    def take(self, command: str) -> Holder | None:
        """Take the lock until `release` or the end of this process.

        Args:
            command: what runs, for others to read.

        Returns:
            who held it and ended without giving it back, if anybody did.

        Raises:
            LockedError: somebody holds it.
            OSError: the file cannot be made.
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
        # A forked process would hold the lock, too, and for its present task outlive a run that is killed.
        os.register_at_fork(after_in_child=self._close)
        return left

    def release(self) -> None:
        """Give the lock back; in a process that was forked from the one that took it there is nothing to give."""
        if self._descriptor is not None:
            with contextlib.suppress(OSError):
                os.ftruncate(self._descriptor, 0)
        self._close()

    def _close(self) -> None:
        """Let go of the file, and with it of the lock unless another process has it."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)

    def _claim(self, descriptor: int) -> Holder | None:
        """Lock an open file; returns whoever left a word in it without a lock.

        Raises:
            LockedError: somebody holds it, or may do so on another host.
        """
        locked = _lock(descriptor)
        left = Holder.read(os.pread(descriptor, _LARGEST, 0).decode(errors="replace"))
        if not locked:
            message = (
                f"another run works on this inventory: {left or 'one that has not said who it is'}. "
                f"Wait until it has ended; --check, preflight and describe need not wait. (lock: {self._path})"
            )
            raise LockedError(message)
        if left is not None and left.host != socket.gethostname():
            message = (
                f"another host may work on this inventory: {left}. Whether that process still runs cannot be seen from "
                f"here. Wait until it has ended; where it was killed, or {left.host} is gone: rm {self._path}"
            )
            raise LockedError(message)
        return left


def _lock(descriptor: int) -> bool:
    """Lock an open file; returns whether that was possible."""
    for _ in range(_ATTEMPTS):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(_PAUSE_S)
        else:
            return True
    return False
