"""Run restic on the backup repository; all options used here exist in restic 0.14 (Debian 12)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

from .programs import ended
from .settings import BackupError, NoSnapshotError

if TYPE_CHECKING:
    from pathlib import Path

    from .programs import Outcome
    from .settings import Settings

__all__ = ["Repository", "Snapshot"]

_TAG = "busbar"
# Exit codes since 0.17, https://restic.readthedocs.io/en/stable/075_scripting.html. Older releases exit with 1, so
# their messages below are matched.
_MISSING, _WRONG_PASSWORD = 10, 12
_MISSING_MESSAGES = (
    "Is there a repository at the following location?",
    "repository does not exist",
    "config: no such file",
)
_PASSWORD_MESSAGES = ("wrong password or no key found",)
_SHORTEST_ID = 4


class Snapshot(NamedTuple):
    """A snapshot: id, time in restic's format, and host."""

    id: str
    time: str
    host: str

    def __str__(self) -> str:
        """Return a line with the short id, the time and the host."""
        return f"{self.id[:8]}  {self.time[:19].replace('T', ' ')}  {self.host}"


class Repository:
    """The restic repository with the snapshots of all hosts."""

    def __init__(self, settings: Settings) -> None:
        """Store the settings; restic does not run."""
        self.settings = settings

    def run(self, *arguments: str) -> Outcome:
        """Run restic on the repository.

        Raises:
            BackupError: restic is missing.
        """
        return ended([self.settings.restic, *arguments])

    def must(self, *arguments: str) -> str:
        """Run restic and return its output.

        Raises:
            BackupError: restic failed.
        """
        done = self.run(*arguments)
        if done.status:
            raise BackupError(self.error_message(arguments[0], done))
        return done.output

    def error_message(self, what: str, done: Outcome) -> str:
        """Return an error message, with a remedy for a missing repository and a wrong password."""
        output = done.errors or done.output
        where = self.settings.repository
        if _is_missing(done):
            return (
                f"no restic repository at {where}: check that it is mounted and its host is up. Nothing "
                "was created, because a new repository would hide the loss of the previous one. To "
                "create a new one: busbar provision backup -e backup_new_repository=true"
            )
        if done.status == _WRONG_PASSWORD or any(words in output for words in _PASSWORD_MESSAGES):
            return (
                f"/etc/busbar/backup/password is not the password of the repository {where}: "
                "restore secrets/backup.password on the provisioning host, or set backup_password"
            )
        return f"restic {what} on {where} exited with status {done.status}: {output[-600:]}"

    def make(self, *, known: bool) -> bool:
        """Create the repository if it does not exist; return whether it was created.

        Args:
            known: whether this host has used the repository before; if so, a missing repository is an error.

        Raises:
            BackupError: the repository cannot be reached, used or created, or a known one is missing.
        """
        there = self.run("cat", "config")
        if there.status == 0:
            return False
        if known or not _is_missing(there):
            raise BackupError(self.error_message("cat config", there))
        made = self.run("init")
        # Another host may have created the repository at the same time.
        if made.status and self.run("cat", "config").status:
            raise BackupError(self.error_message("init", made))
        return made.status == 0

    def snapshots(self, host: str = "") -> list[Snapshot]:
        """Return the snapshots, newest last.

        Args:
            host: only snapshots of this host; empty for all.

        Raises:
            BackupError: restic failed.
        """
        of_host = ["--host", host] if host else []
        found = json.loads(self.must("snapshots", "--json", "--tag", _TAG, *of_host)) or []
        return sorted(
            (Snapshot(item["id"], item["time"], item["hostname"]) for item in found), key=lambda one: one.time
        )

    def choose(self, wanted: str) -> Snapshot:
        """Return the snapshot of this host with an id prefix, or the ``latest``.

        Raises:
            NoSnapshotError: no snapshot matches; the message lists the existing ones.
        """
        host = self.settings.host
        known = self.snapshots()
        own = [one for one in known if one.host == host]
        named = [one for one in own if len(wanted) >= _SHORTEST_ID and one.id.startswith(wanted)]
        fitting = own[-1:] if wanted == "latest" else named
        if len(fitting) == 1:
            return fitting[0]
        listed = "; ".join(str(one) for one in known[-10:]) or "none"
        message = f"no snapshot {wanted!r} of {host} in {self.settings.repository}. Available: {listed}"
        raise NoSnapshotError(message)

    def restore(self, snapshot: Snapshot, target: Path) -> None:
        """Restore the files of a snapshot below a directory.

        Raises:
            BackupError: restic could not read all files.
        """
        done = self.run("restore", snapshot.id, "--target", str(target))
        if done.status:
            message = (
                f"snapshot {snapshot.id[:8]} cannot be read completely. Nothing was changed: "
                f"{self.error_message('restore', done)}. To use an older snapshot, run again with "
                "-e restore_snapshot=ID (busbar-backup list shows the IDs)"
            )
            raise BackupError(message)

    def check(self, *, data: bool) -> None:
        """Check the repository for damage.

        Args:
            data: also read all data, which takes the time of a full download.

        Raises:
            BackupError: the repository is damaged.
        """
        self.must("check", *(["--read-data"] if data else []))


def _is_missing(done: Outcome) -> bool:
    return done.status == _MISSING or (done.status != 0 and any(words in done.errors for words in _MISSING_MESSAGES))
