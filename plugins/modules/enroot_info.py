"""Module that looks at what Enroot needs of a host."""

from __future__ import annotations

DOCUMENTATION = r"""
module: enroot_info
author: busbar contributors
short_description: Look at what Enroot needs of a host
description:
  - Tells whether unprivileged users can make user namespaces, by trying it as the user nobody, what the kernel's
    settings are, and what disk there is. Changes nothing.
  - Where Enroot is installed its own program tries it, which AppArmor may allow what it forbids to others.
attributes:
  check_mode:
    description: Can run in check mode and return changed status prediction without modifying target.
    support: full
options:
  path:
    description: Where Enroot is to keep its files.
    type: path
    required: true
  settings:
    description: Names of the kernel's settings.
    type: list
    elements: str
    required: true
  users:
    description: Users that should be known here.
    type: list
    elements: str
    default: []
  users_directory:
    description: Where the credentials of users lie, one directory each.
    type: path
    default: /etc/enroot/users
"""

EXAMPLES = r"""
- name: Look at the host
  busbar.cluster.enroot_info:
    path: /var/lib/enroot
    settings: [user.max_user_namespaces]
  register: __example_host
"""

RETURN = r"""
enroot:
  description:
    - C(works), whether nobody could make a namespace; C(installed), whether Enroot's own program tried;
      C(nvidia_cli), whether nvidia-container-cli is there; C(settings), by name, null where the kernel has none;
      C(disk), C(total_mb), C(free_mb) and C(type) of the file system; C(unknown_users); C(credentials), the users
      who have some.
  returned: always
  type: dict
"""

import pwd
import shutil
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule

PROC = Path("/proc/sys")
NSENTER = Path("/usr/bin/enroot-nsenter")
# Where the hooks of Enroot look.
WHERE = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
AS_NOBODY = ["runuser", "-u", "nobody", "--"]
TRIAL = ["unshare", "--user", "--map-root-user", "--mount", "true"]
MEBIBYTE = 1 << 20


def setting(name: str, proc: Path = PROC) -> int | None:
    """Return a setting of the kernel; None when it has none of that name."""
    try:
        return int((proc / name.replace(".", "/")).read_text())
    except (OSError, ValueError):
        return None


def existing(path: Path) -> Path:
    """Return the path, or its nearest parent that is there."""
    return next(place for place in (path, *path.parents) if place.exists())


def file_system(path: Path, mounts: str) -> str:
    """Return the type of the file system that a path lies on, from the text of /proc/mounts."""
    found = ("", "")
    for line in mounts.splitlines():
        _, point, kind = line.split()[:3]
        inside = path == Path(point) or Path(point) in path.parents
        if inside and len(point) >= len(found[0]):
            found = (point, kind)
    return found[1]


def trial(program: Path = NSENTER) -> list[str]:
    """Return the command that tries to make namespaces: Enroot's own way to start a container, once it is there."""
    return [*AS_NOBODY, *([str(program), "--user", "--mount", "--remap-root", "true"] if program.exists() else TRIAL)]


def known(user: str) -> bool:
    """Return whether the system knows a user, from wherever."""
    try:
        pwd.getpwnam(user)
    except KeyError:
        return False
    return True


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "path": {"type": "path", "required": True},
            "settings": {"type": "list", "elements": "str", "required": True},
            "users": {"type": "list", "elements": "str", "default": []},
            "users_directory": {"type": "path", "default": "/etc/enroot/users"},
        },
        supports_check_mode=True,
    )
    credentials = Path(module.params["users_directory"])
    place = existing(Path(module.params["path"]))
    usage = shutil.disk_usage(place)
    disk: dict[str, Any] = {"total_mb": usage.total // MEBIBYTE, "free_mb": usage.free // MEBIBYTE}
    disk["type"] = file_system(place.resolve(), Path("/proc/mounts").read_text())
    module.exit_json(
        changed=False,
        enroot={
            "works": module.run_command(trial())[0] == 0,
            "installed": NSENTER.exists(),
            "nvidia_cli": shutil.which("nvidia-container-cli", path=WHERE) is not None,
            "settings": {name: setting(name) for name in module.params["settings"]},
            "disk": disk,
            "unknown_users": [user for user in module.params["users"] if not known(user)],
            "credentials": sorted(path.parent.name for path in credentials.glob("*/.credentials")),
        },
    )


if __name__ == "__main__":
    main()
