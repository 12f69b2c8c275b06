"""A timer of systemd on the provisioning host that renews the certificates of the nodes' host keys."""

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

__all__ = ["Timer", "install", "remove"]

SYSTEM_UNITS = Path("/etc/systemd/system")
SERVICE = """\
[Unit]
Description=Renew the SSH certificates of the cluster in {inventory}

[Service]
Type=oneshot
WorkingDirectory={folder}
ExecStart={command}
"""
TIMER = """\
[Unit]
Description=Renew the SSH certificates of the cluster in {inventory}

[Timer]
OnCalendar={calendar}
RandomizedDelaySec=1h
Persistent=true

[Install]
WantedBy=timers.target
"""


@dataclasses.dataclass(frozen=True)
class Timer:
    """The timer of one inventory: root's is the system's, that of others is their own."""

    inventory: Path
    calendar: str = "weekly"

    @property
    def name(self) -> str:
        """Name of the units, without their endings; each inventory has its own."""
        return f"busbar-ssh-renew-{hashlib.sha256(str(self.inventory).encode()).hexdigest()[:8]}"

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
        busbar = Path(sys.executable).parent / "busbar"
        words = [str(busbar), "provision", "base", "-i", str(self.inventory), "--tags", "ssh"]
        shown = str(self.inventory).replace("%", "%%")
        folder = str(Path.cwd()).replace("%", "%%")
        return {
            f"{self.name}.service": SERVICE.format(inventory=shown, folder=folder, command=exec_start(words)),
            f"{self.name}.timer": TIMER.format(inventory=shown, calendar=self.calendar),
        }


def install(timer: Timer) -> list[str]:
    """Write and start the timer; return what the user should know.

    Raises:
        UsageError: when systemd does not take it.
    """
    if shutil.which("systemctl") is None:
        message = "there is no systemd here: have cron run `busbar provision base --tags ssh` every week"
        raise UsageError(message)
    timer.units.mkdir(parents=True, exist_ok=True)
    for name, text in timer.texts.items():
        (timer.units / name).write_text(text)
    _systemctl("daemon-reload")
    _systemctl("enable", "--now", f"{timer.name}.timer")
    told = [f"{timer.name}.timer: {timer.calendar}, renews what ends within a third of its life"]
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
