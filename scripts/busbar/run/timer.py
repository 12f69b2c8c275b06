"""Systemd timers on the provisioning host that run busbar on an inventory."""

from __future__ import annotations

import dataclasses
import getpass
import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

from ansible_collections.busbar.cluster.plugins.module_utils.common.systemd import exec_start

from busbar.errors import UsageError

SYSTEM_UNITS = Path("/etc/systemd/system")
SERVICE = """\
[Unit]
Description={does}

[Service]
Type=oneshot
SuccessExitStatus={good}
WorkingDirectory={folder}
ExecStart={command}
"""
TIMER = """\
[Unit]
Description={does}

[Timer]
OnCalendar={calendar}
RandomizedDelaySec=1h
Persistent=true

[Install]
WantedBy=timers.target
"""


@dataclasses.dataclass(frozen=True)
class Timer:
    """The timer of one inventory: a system unit for root, a user unit for others.

    Attributes:
        inventory: the inventory.
        kind: prefix of the unit names.
        does: the description in systemd, without the inventory.
        words: arguments of busbar; the path of the inventory is inserted after the first `-i`.
        effect: the effect of the timer, shown to the user who installs it.
        calendar: a value of systemd's OnCalendar.
        good: exit codes other than 0 that are not a failure of the unit.
    """

    inventory: Path
    kind: str
    does: str
    words: tuple[str, ...]
    effect: str
    calendar: str = "weekly"
    good: str = ""

    @property
    def name(self) -> str:
        """Name of the units without suffix; it differs between inventories."""
        return f"{self.kind}-{hashlib.sha256(str(self.inventory).encode()).hexdigest()[:8]}"

    @property
    def units(self) -> dict[Path, str]:
        """The unit files and their contents."""
        base = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "systemd" / "user"
        folder = SYSTEM_UNITS if os.geteuid() == 0 else base
        at = self.words.index("-i") + 1
        words = [*self.words[:at], str(self.inventory), *self.words[at:]]
        values = {
            "does": f"{self.does} in {self.inventory}".replace("%", "%%"),
            "good": self.good,
            "folder": str(Path.cwd()).replace("%", "%%"),
            "command": exec_start([str(Path(sys.executable).parent / "busbar"), *words]),
            "calendar": self.calendar,
        }
        kinds = {"service": SERVICE, "timer": TIMER}
        return {folder / f"{self.name}.{kind}": text.format(**values) for kind, text in kinds.items()}

    def install(self) -> list[str]:
        """Write and start the timer, and return messages for the user.

        Raises:
            UsageError: systemd rejects it.
        """
        if shutil.which("systemctl") is None:
            message = f"systemd is not installed: use a cron job instead; {self.effect}"
            raise UsageError(message)
        for path, text in self.units.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        _systemctl("daemon-reload")
        _systemctl("enable", "--now", f"{self.name}.timer")
        lines = [f"{self.name}.timer: {self.calendar}, {self.effect}"]
        lingers = "loginctl", "show-user", getpass.getuser(), "--property=Linger", "--value"
        if os.geteuid() != 0 and subprocess.run(lingers, check=False, capture_output=True).stdout.strip() != b"yes":
            lines.append(
                f"the timer runs only while {getpass.getuser()} is logged in; to run it always: loginctl enable-linger "
                f"{getpass.getuser()}"
            )
        return lines

    def remove(self) -> str:
        """Stop and remove the timer, and return a message.

        Raises:
            UsageError: systemd cannot stop it.
        """
        if not any(path.exists() for path in self.units):
            return f"{self.name}.timer: does not exist"
        _systemctl("disable", "--now", f"{self.name}.timer")
        for path in self.units:
            path.unlink(missing_ok=True)
        _systemctl("daemon-reload")
        return f"{self.name}.timer: removed"


def _systemctl(*words: str) -> None:
    command = ["systemctl", *([] if os.geteuid() == 0 else ["--user"]), *words]
    try:
        done = subprocess.run(command, check=False, capture_output=True, text=True)
    except OSError as exc:
        done = subprocess.CompletedProcess(command, 1, "", str(exc))
    if done.returncode:
        message = f"`{' '.join(command)}` failed: {done.stderr.strip() or done.stdout.strip()}"
        raise UsageError(message)
