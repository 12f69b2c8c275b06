"""Timers of systemd on the provisioning host, which run busbar on an inventory by themselves."""

from __future__ import annotations

import dataclasses
import getpass
import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from ansible_collections.busbar.cluster.plugins.module_utils.common.systemd import exec_start

from busbar.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Timer", "Work", "install", "remove"]

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
class Work:
    """What a timer has busbar do.

    Attributes:
        name: of the units; the inventory is added.
        does: the sentence that systemd shows, without the inventory.
        words: of the command line of busbar; the inventory follows the first `-i`.
        told: what it does, for who installs the timer.
        good: exit codes besides 0 with which the unit has not failed.
    """

    name: str
    does: str
    words: tuple[str, ...]
    told: str
    good: str = ""


@dataclasses.dataclass(frozen=True)
class Timer:
    """The timer of one inventory: root's is the system's, that of others is their own."""

    inventory: Path
    work: Work
    calendar: str = "weekly"

    @property
    def name(self) -> str:
        """Name of the units, without their endings; each inventory has its own."""
        return f"{self.work.name}-{hashlib.sha256(str(self.inventory).encode()).hexdigest()[:8]}"

    @property
    def units(self) -> Path:
        """Where the units lie."""
        if os.geteuid() == 0:
            return SYSTEM_UNITS
        base = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
        return Path(base) / "systemd" / "user"

    @property
    def texts(self) -> dict[str, str]:
        """Text of each unit by its name."""
        at = self.work.words.index("-i") + 1
        words = [*self.work.words[:at], str(self.inventory), *self.work.words[at:]]
        does = f"{self.work.does} in {self.inventory}".replace("%", "%%")
        command = exec_start([str(Path(sys.executable).parent / "busbar"), *words])
        folder = str(Path.cwd()).replace("%", "%%")
        service = SERVICE.format(does=does, good=self.work.good, folder=folder, command=command)
        return {
            f"{self.name}.service": service,
            f"{self.name}.timer": TIMER.format(does=does, calendar=self.calendar),
        }


def install(timer: Timer) -> list[str]:
    """Write and start the timer; return what the user should know.

    Raises:
        UsageError: when systemd does not take it.
    """
    if shutil.which("systemctl") is None:
        message = f"there is no systemd here: have cron run what it would: {timer.work.told}"
        raise UsageError(message)
    timer.units.mkdir(parents=True, exist_ok=True)
    for name, text in timer.texts.items():
        (timer.units / name).write_text(text)
    _systemctl("daemon-reload")
    _systemctl("enable", "--now", f"{timer.name}.timer")
    told = [f"{timer.name}.timer: {timer.calendar}, {timer.work.told}"]
    if os.geteuid() != 0 and not _lingers():
        told.append(f"it runs only while you are logged in: loginctl enable-linger {getpass.getuser()}")
    return told


def remove(timer: Timer) -> bool:
    """Stop and remove the timer; return whether there was one.

    Raises:
        UsageError: when systemd does not stop it.
    """
    files = [timer.units / name for name in timer.texts]
    if not any(file.exists() for file in files):
        return False
    _systemctl("disable", "--now", f"{timer.name}.timer")
    for file in files:
        file.unlink(missing_ok=True)
    _systemctl("daemon-reload")
    return True


def _systemctl(*words: str) -> None:
    command = ["systemctl", *([] if os.geteuid() == 0 else ["--user"]), *words]
    done = _run(command)
    if done.returncode:
        message = f"`{' '.join(command)}` fails: {done.stderr.strip() or done.stdout.strip()}"
        raise UsageError(message)


def _lingers() -> bool:
    shown = _run(["loginctl", "show-user", getpass.getuser(), "--property=Linger", "--value"])
    return shown.stdout.strip() == "yes"


def _run(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(command, check=False, capture_output=True, text=True)
    except OSError as exc:
        return subprocess.CompletedProcess(command, 1, "", str(exc))
