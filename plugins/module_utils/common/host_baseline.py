"""What is on a host before busbar changes it for the first time."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ansible.module_utils.basic import AnsibleModule

__all__ = [
    "DAMAGED",
    "DEPTHS",
    "EDITED",
    "deeper",
    "host_baseline",
    "installed_packages",
    "names_in",
    "paths_below",
    "signs_of_busbar",
]

DAMAGED = "{path} is damaged ({reason}): without it nobody knows what was on this host before"
# How deep directories are listed; what belongs to the system itself lies elsewhere, and to users below.
DEPTHS = {
    "/etc": 8,
    "/usr/local": 4,
    "/opt": 2,
    "/srv": 1,
    "/root": 2,
    "/var/lib": 2,
    "/var/log": 2,
    "/var/spool": 2,
    "/var/cache": 1,
}
# Files in which Ansible's own modules set a line or a block, or which they replace.
EDITED = ("/etc/hostname", "/etc/localtime", "/etc/bash.bashrc", "/etc/bashrc", "/etc/nccl.conf")
# Signs of a busbar that kept no record.
_OLDER = ("/etc/sudoers.d/busbar", "/usr/local/lib/busbar", "/etc/security/limits.d/80-busbar.conf")
_DPKG = "${Package}\\t${Version}\\t${db:Status-Status}\\n"
_RPM = "%{NAME}\t%{VERSION}-%{RELEASE}\n"
_UNIT_FIELDS = 2


def names_in(path: Path) -> dict[str, int]:
    """Return the names of the accounts in a file such as /etc/passwd with their numbers."""
    rows = (line.split(":") for line in path.read_text(encoding="utf-8", errors="replace").splitlines())
    return {row[0]: int(row[2]) for row in rows if len(row) > _UNIT_FIELDS and row[2].isdigit()}


def deeper(path: str) -> bool:
    """Return whether a path lies where no baseline looks."""
    top = next((top for top in DEPTHS if path == top or path.startswith(f"{top}/")), "")
    return not top or len(path.split("/")) - len(top.split("/")) > DEPTHS[top]


def paths_below(top: str, depth: int) -> Iterator[str]:
    """Yield all paths of the same file system, down to a depth."""
    try:
        device = Path(top).stat().st_dev
        entries = sorted(os.scandir(top), key=lambda entry: entry.name)
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return
    for entry in entries:
        yield entry.path
        if depth > 1 and entry.is_dir(follow_symlinks=False) and entry.stat(follow_symlinks=False).st_dev == device:
            yield from paths_below(entry.path, depth - 1)


def installed_packages(module: AnsibleModule) -> dict[str, tuple[str, bool]]:
    """Return the version of each installed package, and whether it came as a dependency."""
    if module.get_bin_path("dpkg-query"):
        rows = [line.split("\t") for line in _output(module, "dpkg-query", "-W", "-f", _DPKG).splitlines()]
        automatic = set(_output(module, "apt-mark", "showauto").split())
        return {row[0]: (row[1], row[0] in automatic) for row in rows if row[2] == "installed"}
    rows = [line.split("\t") for line in _output(module, "rpm", "-qa", "--qf", _RPM).splitlines()]
    wanted = set(_output(module, "dnf", "-q", "repoquery", "--userinstalled", "--qf", "%{name}\\n").split())
    return {row[0]: (row[1], row[0] not in wanted) for row in rows}


def host_baseline(module: AnsibleModule, record: Path) -> dict[str, Any]:
    """Return what is there: packages, holds, accounts, units and the names of files."""
    held = _output(module, "apt-mark", "showhold").split() if module.get_bin_path("apt-mark") else []
    return {
        "format": 1,
        "time": int(time.time()),
        "older": signs_of_busbar(record),
        "packages": installed_packages(module),
        "held": held,
        "users": names_in(Path("/etc/passwd")),
        "groups": names_in(Path("/etc/group")),
        "units": units(module),
        "active": active_units(module),
        "paths": [path for top, depth in DEPTHS.items() for path in paths_below(top, depth)],
    }


def signs_of_busbar(record: Path) -> list[str]:
    """Return what shows that busbar has changed this host without the record, which lies beside its other files.

    What an uninstallation has kept is no such sign, nor what an upgrade of Slurm has saved, which it leaves.
    """
    found = [path for path in _OLDER if Path(path).exists()]
    beside = {path.name for path in record.parent.iterdir()} if record.parent.is_dir() else set()
    if beside - {record.name, "kept", "upgrade_slurm"}:
        found.append(str(record.parent))
    if "# BEGIN busbar" in Path("/etc/hosts").read_text(encoding="utf-8", errors="replace"):
        found.append("the names of the cluster in /etc/hosts")
    return found


def units(module: AnsibleModule) -> dict[str, str]:
    """Return the units that have a file, and whether they are enabled."""
    listed = _output(module, "systemctl", "list-unit-files", "--no-legend", "--no-pager", "--plain")
    rows = (line.split() for line in listed.splitlines())
    return {row[0]: row[1] for row in rows if len(row) >= _UNIT_FIELDS}


def active_units(module: AnsibleModule) -> list[str]:
    """Return the services, sockets and timers that are active."""
    # sd_booted(3): without systemd as the first process nothing can be active.
    if not Path("/run/systemd/system").is_dir():
        return []
    kinds = "--type=service,socket,timer,path"
    listed = _output(module, "systemctl", "list-units", kinds, "--state=active", "--no-legend", "--no-pager", "--plain")
    return sorted(row[0] for row in (line.split() for line in listed.splitlines()) if row)


def _output(module: AnsibleModule, *words: str) -> str:
    """Return what a program prints; its failure is not taken for nothing.

    Raises:
        OSError: it fails.
    """
    # systemctl waits 25 s, and reading all units takes longer on a machine that is emulated, or very busy.
    environment = {"LC_ALL": "C.UTF-8", "SYSTEMD_BUS_TIMEOUT": "300s"}
    status, out, err = module.run_command(list(words), environ_update=environment)
    if status != 0:
        message = f"`{' '.join(words)}` ends with {status}: {' '.join(f'{err} {out}'.split())}"
        raise OSError(message)
    return str(out)
