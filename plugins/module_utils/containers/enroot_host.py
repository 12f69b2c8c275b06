"""Read the facts that Enroot depends on: user namespaces, sysctls, disk and users."""

from __future__ import annotations

import pwd
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..common.systemd import unit_states
from .enroot_config import NAMESPACE_SETTINGS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ansible.module_utils.basic import AnsibleModule

__all__ = ["read_enroot"]

UNITS = ("busbar-enroot.socket", "busbar-enroot-clean.timer")
PROC = Path("/proc/sys")
NSENTER = Path("/usr/bin/enroot-nsenter")
# Search path of Enroot's hooks.
WHERE = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
AS_NOBODY = ["runuser", "-u", "nobody", "--"]
TRIAL = ["unshare", "--user", "--map-root-user", "--mount", "true"]
MEBIBYTE = 1 << 20


def setting(name: str, proc: Path = PROC) -> int | None:
    """Return the value of a sysctl key, or None if the key does not exist."""
    try:
        return int((proc / name.replace(".", "/")).read_text())
    except (OSError, ValueError):
        return None


def existing(path: Path) -> Path:
    """Return the path or its nearest existing parent."""
    return next(place for place in (path, *path.parents) if place.exists())


def file_system(path: Path, mounts: str) -> str:
    """Return the type of a path's file system from the text of /proc/mounts."""
    found = ("", "")
    for line in mounts.splitlines():
        _, point, kind = line.split()[:3]
        inside = path == Path(point) or Path(point) in path.parents
        if inside and len(point) >= len(found[0]):
            found = (point, kind)
    return found[1]


def trial(program: Path = NSENTER) -> list[str]:
    """Return a command that tries to create namespaces, with Enroot's program if it is installed."""
    return [*AS_NOBODY, *([str(program), "--user", "--mount", "--remap-root", "true"] if program.exists() else TRIAL)]


def known(user: str) -> bool:
    """Return whether a user exists in any NSS source."""
    try:
        pwd.getpwnam(user)
    except KeyError:
        return False
    return True


def read_enroot(module: AnsibleModule, path: str, users: Sequence[str], users_directory: str) -> dict[str, Any]:
    """Return the facts of a host that Enroot depends on.

    Args:
        module: the running module.
        path: directory for Enroot's files.
        users: users that should exist.
        users_directory: parent of the users' credentials directories.

    Returns:
        `works`, whether an unprivileged user could create a namespace; `installed`, whether the trial used Enroot's
        program, which an AppArmor profile may allow; `nvidia_cli`, whether nvidia-container-cli is installed;
        `settings` by name, None for a setting missing from the kernel; `disk` with `total_mb`, `free_mb` and `type` of
        the file system; `unknown_users`; `credentials`, the users with a credentials file; `units`, systemd's states.
    """
    place = existing(Path(path))
    usage = shutil.disk_usage(place)
    disk: dict[str, Any] = {"total_mb": usage.total // MEBIBYTE, "free_mb": usage.free // MEBIBYTE}
    disk["type"] = file_system(place.resolve(), Path("/proc/mounts").read_text())
    show = ["systemctl", "show", "-p", "Id,UnitFileState,ActiveState", *UNITS]
    return {
        "works": module.run_command(trial())[0] == 0,
        "installed": NSENTER.exists(),
        "nvidia_cli": shutil.which("nvidia-container-cli", path=WHERE) is not None,
        "settings": {name: setting(name) for name in NAMESPACE_SETTINGS},
        "disk": disk,
        "unknown_users": [user for user in users if not known(user)],
        "credentials": sorted(item.parent.name for item in Path(users_directory).glob("*/.credentials")),
        "units": unit_states(module.run_command(show)[1]),
    }
