"""Asks a host for its part in a MariaDB cluster, and starts it; standard library only."""

from __future__ import annotations

import json
import pwd
import re
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .galera import NOT_COUNTED, Member, parse_position, parse_state

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["Host", "StartError", "read_status"]

_UNIT = "mariadb"
_SYSTEM = {"mysql", "performance_schema", "sys", "test"}
_STATUS = "SHOW STATUS WHERE Variable_name LIKE 'wsrep\\_%'; SHOW VARIABLES WHERE Variable_name = 'wsrep_on'"
_ASK_S = 20
_RECOVER_S = 900
_AGAIN_S = 90
_PAUSE_S = 1.0


class StartError(Exception):
    """A host did not become a member; the message says what it said last."""


def read_status(text: str) -> dict[str, str]:
    """Return variables by name of what the client prints with tabs between columns."""
    return dict(line.split("\t", 1) for line in text.splitlines() if "\t" in line)


class Host:
    """This host's mariadbd and its data."""

    def __init__(self, data: str, socket: str, saved: str = "") -> None:
        """Take where it keeps its data, where it listens, and the note of the last backup."""
        self.data = Path(data)
        self.socket = socket
        self.saved = Path(saved) if saved else None

    def status(self) -> dict[str, str]:
        """What mariadbd says of its part in a cluster; nothing where it does not answer."""
        command = ["mariadb", f"--socket={self.socket}", "--batch", "--skip-column-names", f"--execute={_STATUS}"]
        rc, printed, _ = _run(command, _ASK_S)
        return read_status(printed) if rc == 0 else {}

    def look(self, *, recover: bool) -> Member:
        """What it says of itself; `recover` lets a host that was killed count its transactions, which repairs them."""
        status = self.status()
        running = bool(status)
        alone = running and status.get("wsrep_on") != "ON"
        primary = not alone and status.get("wsrep_cluster_status") == "Primary"
        # What it has written since it left a cluster is counted nowhere: the others' data would look as new as its own.
        cluster, transaction, left_last = ("", -1, False) if alone else self._state()
        if cluster and not running and transaction < 0:
            transaction = self._counted(cluster) if recover else NOT_COUNTED
        return {
            "running": running,
            "alone": alone,
            "cluster": status.get("wsrep_cluster_state_uuid", "") if primary else "",
            "was_in": cluster,
            "transaction": transaction,
            "left_last": left_last,
            "databases": self._databases(),
            "saved_s": self._saved_s(),
        }

    def start(self, *, first: bool, timeout_s: float) -> None:
        """Start mariadbd, as the first of a cluster or as one that joins, and wait until it has all data.

        Raises:
            StartError: it did not become a member in time.
        """
        deadline = time.monotonic() + timeout_s
        if first:
            self._allow_first()
        _run(["systemctl", "daemon-reload"], _ASK_S)
        command = ["galera_new_cluster"] if first else ["systemctl", "restart", _UNIT]
        rc, _, complaint = _run(command, timeout_s)
        if rc != 0 and first:
            raise StartError(self._last_words(complaint))
        # One that joins and found no majority is started again by systemd.
        deadline = min(deadline, time.monotonic() + (_AGAIN_S if rc != 0 else timeout_s))
        while not self.is_member():
            if time.monotonic() > deadline:
                raise StartError(self._last_words(complaint))
            time.sleep(_PAUSE_S)

    def is_member(self) -> bool:
        """Whether it takes queries, with all data, as part of the majority."""
        status = self.status()
        return (
            status.get("wsrep_ready") == "ON"
            and status.get("wsrep_cluster_status") == "Primary"
            and status.get("wsrep_local_state_comment") == "Synced"
        )

    def _state(self) -> tuple[str, int, bool]:
        try:
            return parse_state((self.data / "grastate.dat").read_text(encoding="utf-8"))
        except OSError:
            return "", -1, False

    def _counted(self, cluster: str) -> int:
        _run(["systemctl", "stop", _UNIT], _RECOVER_S)
        rc, printed, complaint = _run(["galera_recovery"], _RECOVER_S, _service_account())
        found = parse_position(f"{complaint}\n{printed}")
        return found.transaction if rc == 0 and found.cluster == cluster else -1

    def _allow_first(self) -> None:
        """Note that it may start a cluster again, which it refuses where it was not the last one to stop."""
        path = self.data / "grastate.dat"
        if path.exists():
            text = path.read_text(encoding="utf-8")
            path.write_text(re.sub(r"(?m)^(safe_to_bootstrap:).*$", r"\1 1", text), encoding="utf-8")

    def _databases(self) -> list[str]:
        if not self.data.is_dir():
            return []
        return sorted(item.name for item in self.data.iterdir() if item.is_dir() and self._is_database(item))

    @staticmethod
    def _is_database(folder: Path) -> bool:
        """Whether it is a database with tables: one without may be replaced."""
        return folder.name not in _SYSTEM and not folder.name.startswith((".", "#")) and any(folder.glob("*.frm"))

    def _saved_s(self) -> int:
        try:
            made = float(json.loads(self.saved.read_text(encoding="utf-8"))["success"]) if self.saved else 0
        except (OSError, ValueError, KeyError, TypeError):
            return -1
        return int(time.time() - made) if made else -1

    @staticmethod
    def _last_words(complaint: str) -> str:
        _, said, _ = _run(["journalctl", "-u", _UNIT, "-n", "12", "--no-pager", "-o", "cat"], _ASK_S)
        return f"{complaint.strip()}\n{said.strip()}".strip()


def _service_account() -> dict[str, Any]:
    """User and groups of the unit, which alone may read its private key: a server that cannot ends before it counts."""
    _, shown, _ = _run(["systemctl", "show", _UNIT, "--property=User,SupplementaryGroups"], _ASK_S)
    values = dict(line.split("=", 1) for line in shown.splitlines() if "=" in line)
    try:
        group = pwd.getpwnam(values.get("User", "")).pw_gid
    except KeyError:
        return {}
    return {"user": values["User"], "group": group, "extra_groups": values.get("SupplementaryGroups", "").split()}


def _run(command: Sequence[str], timeout_s: float, account: Mapping[str, Any] | None = None) -> tuple[int, str, str]:
    """Return status, output and complaint of a program; one that is missing or late has a status as well."""
    try:
        done = subprocess.run(  # noqa: S603 - the commands above
            command,
            check=False,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            stdin=subprocess.DEVNULL,
            **(account or {}),
        )
    except (OSError, KeyError, subprocess.TimeoutExpired) as error:
        return 127, "", str(error)
    return done.returncode, done.stdout, done.stderr
