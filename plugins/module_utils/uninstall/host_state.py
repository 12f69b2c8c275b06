"""State of a host during uninstallation: baseline, current state, and results so far."""

from __future__ import annotations

import hashlib
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..common.baseline import ACCOUNTS, BASELINE, read_written
from ..common.package_commands import ENVIRONMENT

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ansible.module_utils.basic import AnsibleModule

__all__ = ["BUSBAR", "KEPT", "UNITS", "HostBase", "RefusedError", "copy_of", "digest", "is_below", "read_rows"]

BUSBAR = Path("/var/lib/busbar")
KEPT = BUSBAR / "kept"
UNITS = Path("/etc/systemd/system")
# First UID of regular users.
_FIRST_PERSON = 1000
_UID, _HOME = 2, 5


class RefusedError(Exception):
    """The uninstallation is refused; nothing is changed."""


def digest(data: bytes) -> str:
    """Return the SHA-256 of data in hexadecimal digits."""
    return hashlib.sha256(data).hexdigest()


def copy_of(name: str) -> Path:
    """Return the path of the saved copy of a file."""
    return BASELINE / "files" / name.lstrip("/")


def read_rows(kind: str) -> dict[str, list[str]]:
    """Return the rows of /etc/passwd (`users`) or /etc/group (`groups`) by name."""
    text = ACCOUNTS[kind].read_text(encoding="utf-8", errors="replace")
    rows = (line.split(":") for line in text.splitlines())
    return {row[0]: row for row in rows if len(row) > _UID and row[_UID].isdigit()}


def is_below(path: str, tops: Iterable[str]) -> str:
    """Return the first of these directories that contains or equals a path, or ''."""
    return next((top for top in tops if path == top or path.startswith(f"{top.rstrip('/')}/")), "")


class HostBase:
    """A host during uninstallation."""

    def __init__(self, module: AnsibleModule, baseline: dict[str, Any]) -> None:
        """Read the state of the host."""
        self.module, self.given, self.baseline = module, module.params, baseline
        self.before = set(baseline["paths"])
        self.removed: list[str] = []
        self.restored: list[str] = []
        self.kept: list[str] = []
        self.problems: list[str] = []
        self.diff: list[dict[str, str]] = []
        self.going: list[str] = []
        self.back: list[str] = []
        # Users and groups that belong to removed packages.
        self.names: set[str] = set()
        # Hashes and kinds that busbar wrote at each path; 'any' matches every content.
        self.entries = read_written()
        for item in self.given["made"]:
            found = map(str, Path("/").glob(item["path"].lstrip("/")))
            for path in list(found) or [item["path"]]:
                kind = digest(item["content"].encode()) if item["content"] else "any"
                self.entries.setdefault(path, []).append(kind)
        self.data = [path for path in self.given["data"] if os.path.lexists(path)]
        self.homes = [row[_HOME] for row in read_rows("users").values() if int(row[_UID]) >= _FIRST_PERSON]

    def output(self, *words: str) -> str:
        """Return the output of a program, or fail the module."""
        status, out, err = self.module.run_command(list(words), environ_update=ENVIRONMENT)
        if status != 0:
            shown = " ".join(words)[:200]
            self.module.fail_json(
                msg=f"{self.given['host']}: `{shown}` exited with status {status}: {' '.join(f'{err} {out}'.split())}\n"
                "    remedy: fix this error and run again; a repeated run resumes"
            )
        return str(out)

    def in_baseline(self, path: Path) -> bool:
        """Return whether a path is in the baseline."""
        return str(path) in self.before or os.path.lexists(copy_of(str(path)))

    def on_debian(self) -> bool:
        """Return whether dpkg manages the packages."""
        return self.module.get_bin_path("dpkg-query") is not None

    def save_copy(self, source: Path, name: str, why: str) -> None:
        """Save a copy of a file that busbar did not write, or that has been modified since busbar wrote it."""
        place = KEPT / name.lstrip("/")
        self.kept.append(f"{name}: {why}; kept as {place}")
        if self.module.check_mode:
            return
        KEPT.mkdir(mode=0o700, exist_ok=True)
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(source, place, follow_symlinks=False)
