"""Files and outputs of the hosts of a cluster, read over SSH or from a folder of recordings."""

from __future__ import annotations

import base64
import posixpath
import shlex
import subprocess
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from busbar.errors import UsageError
from busbar.node_hardware import HARDWARE

if TYPE_CHECKING:
    from collections.abc import Iterable

_SCRIPT = Path(__file__).with_name("collect.sh")
_HARDWARE = f"printf '@@ command hardware\\n'\n{{\n{HARDWARE}\n}} | base64\n"
_AS_ROOT = 'if [ "$(id -u)" = 0 ]; then exec sh -s; else exec sudo -n sh -s; fi'
_TIMEOUT_S = 300
_AT_ONCE = 16
# Exit status of ssh if it could not connect.
_NO_CONNECTION = 255


@dataclass
class HostReading:
    """The files and the outputs of commands read from a host.

    Attributes:
        files: texts by absolute path.
        commands: outputs by the name in collect.sh.
        error: why nothing was read; empty otherwise.
    """

    files: dict[str, str] = field(default_factory=dict)
    commands: dict[str, str] = field(default_factory=dict)
    error: str = ""

    def own_name(self) -> str:
        """Return the host's own name without domain; '' if it was not read."""
        return self.commands.get("hostname", "").strip().partition(".")[0]

    def conf_path(self) -> str:
        """Return the path of the slurm.conf that the host uses, or ''."""
        reported = self.commands.get("slurm-conf", "").strip()
        if reported in self.files:
            return reported
        found = [path for path in self.files if posixpath.basename(path) == "slurm.conf"]
        return min(found, key=lambda path: (path != "/etc/slurm/slurm.conf", len(path), path), default="")

    def beside(self, name: str) -> str:
        """Return the path of a file in the folder of slurm.conf; '' if it does not exist."""
        path = posixpath.join(posixpath.dirname(self.conf_path()), name)
        return path if path in self.files else ""

    def follow_links(self) -> None:
        """Replace a file that only contains the name of a file beside it: a link in a copy without links."""
        for path, text in self.files.items():
            target = posixpath.normpath(posixpath.join(posixpath.dirname(path), text.strip() or "."))
            if "\n" not in text.strip() and target != path and target in self.files:
                self.files[path] = self.files[target]


def read_recording(folder: Path, controller: str) -> dict[str, HostReading]:
    """Return the readings of a folder: `HOST/etc/…` has files, `commands/HOST-NAME.txt` outputs.

    A folder `controller` is that of the controller.

    Raises:
        UsageError: the folder has no reading of the controller.
    """
    hosts: dict[str, HostReading] = {}
    try:
        for place in sorted(path for path in folder.iterdir() if path.is_dir() and path.name != "commands"):
            reading = hosts.setdefault(controller if place.name == "controller" else place.name, HostReading())
            for path in sorted(path for path in place.rglob("*") if path.is_file()):
                reading.files[f"/{path.relative_to(place)}"] = path.read_text(encoding="utf-8", errors="replace")
            reading.follow_links()
        for path in sorted(folder.glob("commands/*.txt")):
            names = [host for host in (*hosts, controller) if path.stem.startswith(f"{host}-")]
            host = max(names, key=len, default="") or path.stem.split("-")[0]
            reading = hosts.setdefault(host, HostReading())
            reading.commands[path.stem[len(host) + 1 :]] = path.read_text(encoding="utf-8", errors="replace")
    except OSError as exc:
        message = f"{exc.filename}: {exc.strerror}: name a folder that has a folder for each host"
        raise UsageError(message) from exc
    if controller not in hosts:
        message = f"{folder}: has no folder {controller}: --controller names one of {', '.join(hosts) or 'no host'}"
        raise UsageError(message)
    return hosts


def read_hosts(places: dict[str, str], ssh_arguments: str = "") -> dict[str, HostReading]:
    """Return the readings of hosts; a host that does not answer has an error.

    Args:
        places: address or `user@address` of each host by its name.
        ssh_arguments: further arguments of ssh.
    """
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        return dict(zip(places, pool.map(lambda place: _read_host(place, ssh_arguments), places.values())))


def _read_host(place: str, ssh_arguments: str) -> HostReading:
    """Run collect.sh and the probe of the hardware on a host as root."""
    text, error = run_as_root(place, _HARDWARE + _SCRIPT.read_text(encoding="utf-8"), ssh_arguments)
    if error.startswith("ssh failed"):
        return HostReading(error=error)
    reading = parse_sections(text.splitlines())
    if reading is None:
        remedy = "allow the login user to run sudo without a password, or log in as root"
        return HostReading(error=f"sudo failed: {error}: {remedy}")
    return reading


def run_as_root(place: str, script: str, ssh_arguments: str = "") -> tuple[str, str]:
    """Return the output of a shell script on a host, and the last line of its errors."""
    options = ["-o", "BatchMode=yes", "-o", "ConnectTimeout=15", *shlex.split(ssh_arguments)]
    command = ["ssh", *options, "--", place, _AS_ROOT]
    try:
        done = subprocess.run(command, input=script.encode(), capture_output=True, timeout=_TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as exc:
        return "", f"ssh failed: {exc}"
    said = done.stderr.decode(errors="replace").strip().splitlines()
    if done.returncode == _NO_CONNECTION:
        return "", f"ssh failed: {said[-1] if said else 'no answer'}"
    return done.stdout.decode(errors="replace"), said[-1] if said else f"exit status {done.returncode}"


def parse_sections(lines: Iterable[str]) -> HostReading | None:
    """Return the output of collect.sh as a reading; None if it is incomplete."""
    reading, text, last = HostReading(), "", ("", "")
    for line in lines:
        if not line.startswith("@@ "):
            text += line.strip()
            continue
        if last[0]:
            into = reading.files if last[0] == "file" else reading.commands
            into[last[1]] = base64.b64decode(text).decode(errors="replace")
        text = ""
        kind, _, name = line[3:].partition(" ")
        if kind == "end":
            return reading
        last = (kind, name)
    return None
