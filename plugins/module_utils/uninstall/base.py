"""What the parts of an uninstallation share: the host, its record, and what was done."""

from __future__ import annotations

import contextlib
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..common.host_baseline import installed_packages
from ..common.host_record import ACCOUNTS, Record
from ..common.package_commands import ENVIRONMENT
from .accounts import HOME, UID, read_rows

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ansible.module_utils.basic import AnsibleModule

__all__ = ["BUSBAR", "FIRST_PERSON", "KEPT", "UNITS", "HostBase", "RefusedError"]

BUSBAR = Path("/var/lib/busbar")
KEPT = BUSBAR / "kept"
UNITS = Path("/etc/systemd/system")
# Of the numbers of users, the first that is not of the system.
FIRST_PERSON = 1000


class RefusedError(Exception):
    """Why nothing is changed."""


class HostBase:
    """One host: what its record says, what is there, and what was done about it."""

    def __init__(self, module: AnsibleModule, record: Record) -> None:
        """Look at everything; change nothing."""
        self.module, self.record = module, record
        self.given = module.params
        self.baseline: dict[str, Any] = record.baseline or {}
        self.before = set(self.baseline["paths"])
        self.removed: list[str] = []
        self.restored: list[str] = []
        self.kept: list[str] = []
        self.problems: list[str] = []
        self.diff: list[dict[str, str]] = []
        self.installed = installed_packages(module)
        self.going: list[str] = []
        self.back: list[str] = []
        self.users = read_rows(ACCOUNTS["users"])
        self.data = [path for path in self.given["data"] if os.path.lexists(path)]
        self.homes = [row[HOME] for row in self.users.values() if int(row[UID]) >= FIRST_PERSON]

    def output(self, *words: str) -> str:
        """Return what a program prints, or fail the module."""
        status, out, err = self.module.run_command(list(words), environ_update=ENVIRONMENT)
        if status != 0:
            shown = " ".join(words)[:200]
            self.module.fail_json(
                msg=f"{self.given['host']}: `{shown}` ends with {status}: {' '.join(f'{err} {out}'.split())}\n"
                "    remedy: put that right and run this again; it goes on where it ended"
            )
        return str(out)

    def on_debian(self) -> bool:
        """Return whether dpkg rules here."""
        return self.module.get_bin_path("dpkg-query") is not None

    def show(self, name: str, now: Mapping[str, Any] | None, after: str) -> None:
        """Add a file to the diff; secrets are not shown."""
        before = ""
        if now and now["kind"] == "file":
            hidden = not now["mode"] & 0o004
            before = "(not shown)\n" if hidden else Path(name).read_text(encoding="utf-8", errors="replace")
            after = "(not shown)\n" if hidden and after else after
        elif now and now["kind"] == "link":
            before = f"-> {now['target']}\n"
        self.diff.append({"before": before, "after": after, "before_header": name, "after_header": name})

    def keep_aside(self, source: Path, name: str, why: str, *, copy: bool = False) -> None:
        """Keep what somebody else wrote."""
        place = KEPT / name.lstrip("/")
        self.kept.append(f"{name}: {why}; kept as {place}")
        if self.module.check_mode:
            return
        KEPT.mkdir(mode=0o700, exist_ok=True)
        place.parent.mkdir(parents=True, exist_ok=True)
        if copy:
            shutil.copy2(source, place)
        else:
            shutil.move(str(source), str(place))

    def remove_directory(self, path: Path) -> None:
        """Remove a directory that is empty; in check mode others may still be in it."""
        if self.module.check_mode:
            return
        with contextlib.suppress(OSError):
            path.rmdir()
            self.removed.append(str(path))
