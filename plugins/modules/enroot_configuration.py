"""Module that plans a host's Enroot configuration and sets kernel parameters for containers."""

from __future__ import annotations

DOCUMENTATION = r"""
module: enroot_configuration
author: busbar contributors (!UNKNOWN)
short_description: Plan the packages and files of Enroot on a host
description:
  - Creates a user namespace as the user C(nobody), with Enroot's program if it is installed, because AppArmor may
    allow it only to Enroot. Refuses a host on which Enroot cannot create containers, and an invalid declaration.
  - Installs no packages and writes no files except the kernel settings of O(sysctls).
extends_documentation_fragment: busbar.cluster.attributes.diff
options:
  host: {description: Name of the host., type: str, required: true}
  declared: {description: The variable C(__enroot_declared) of the role., type: dict, required: true}
  extra_packages: {description: Additional packages to install., type: list, elements: str, default: []}
  users: {description: Users with credentials., type: list, elements: str, default: []}
  users_directory: {description: Directory of the credentials., type: path, required: true}
  problems:
    description: Problems found by other checks, which are reported together.
    type: list
    elements: dict
    default: []
  sysctls: {description: Whether to set kernel settings for containers., type: bool, default: false}
  headline:
    description: First line of the message if problems are found.
    type: str
    default: "Enroot cannot be set up:"
"""

EXAMPLES = r"""
- busbar.cluster.enroot_configuration: {host: gpu1, declared: {}, users_directory: /etc/enroot/users}
"""

RETURN = r"""
packages: {description: The packages of upstream., returned: success, type: list, elements: dict}
missing: {description: RV(packages) that are not installed., returned: success, type: list, elements: str}
config: {description: Text of enroot.conf., returned: success, type: str}
"""

import pwd
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.common.host_files import keep_files
from ..module_utils.common.package_commands import installed_versions
from ..module_utils.common.problems import refusal
from ..module_utils.common.systemd import unit_states
from ..module_utils.containers.enroot_config import NAMESPACE_SETTINGS, enroot_plan

if TYPE_CHECKING:
    from collections.abc import Sequence

SYSCTLS = "/etc/sysctl.d/60-busbar-enroot.conf"
HEADER = "# Managed by Ansible: Enroot runs containers in user namespaces.\n"
OPTIONS: dict[str, Any] = {
    "host": {"type": "str", "required": True},
    "declared": {"type": "dict", "required": True},
    "extra_packages": {"type": "list", "elements": "str", "default": []},
    "users": {"type": "list", "elements": "str", "default": []},
    "users_directory": {"type": "path", "required": True},
    "problems": {"type": "list", "elements": "dict", "default": []},
    "sysctls": {"type": "bool", "default": False},
    "headline": {"type": "str", "default": "Enroot cannot be set up:"},
}
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
    """Return the facts about a host on which Enroot depends.

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


def look(module: AnsibleModule) -> dict[str, Any]:
    """Return the host's state; check mode ignores missing users, because an earlier task may create them."""
    given = module.params
    users = [] if module.check_mode else given["users"]
    return read_enroot(module, given["declared"]["path"], users, given["users_directory"])


def allow(module: AnsibleModule, text: str) -> list[dict[str, str]]:
    """Write and apply kernel settings; return the diff.

    Raises:
        OSError: the file cannot be written.
    """
    _paths, diff = keep_files(module, [{"path": SYSCTLS, "content": HEADER + text}])
    if diff and not module.check_mode:
        status, out, err = module.run_command(["sysctl", "-q", "-p", SYSCTLS])
        if status:
            output = " ".join(f"{err} {out}".split())
            module.fail_json(msg=f"{module.params['host']}: enroot_sysctls: `sysctl -q -p {SYSCTLS}` failed: {output}")
    return diff


def main() -> None:
    """Run the module."""
    module = AnsibleModule(argument_spec=OPTIONS, supports_check_mode=True)
    given = module.params
    host, declared = given["host"], given["declared"]
    diff: list[dict[str, str]] = []
    try:
        found = look(module)
        plan = enroot_plan(declared, host, found)
        if given["sysctls"] and "sysctls" in plan and not given["problems"]:
            diff = allow(module, plan["sysctls"])
            if diff:
                # Check mode does not apply the settings, so assume that they allow user namespaces.
                found = {**found, "works": True} if module.check_mode else look(module)
                plan = enroot_plan(declared, host, found)
    except (OSError, ValueError) as exc:
        module.fail_json(msg=f"{host}: enroot: {exc}")
    problems = plan["problems"] + given["problems"]
    if problems:
        module.fail_json(**refusal(given["headline"], problems))
    has = installed_versions(module, [*given["extra_packages"], *(item["name"] for item in plan["packages"])])
    module.exit_json(
        changed=bool(diff),
        diff=diff,
        files=plan["files"],
        built=plan["built"],
        packages=plan["packages"],
        missing=[item["name"] for item in plan["packages"] if has.get(item["name"]) != item["version"]],
        missing_packages=[name for name in given["extra_packages"] if name not in has],
        config=plan["config"],
        mounts=plan["mounts"],
        works=found["works"],
        nvidia_cli=found["nvidia_cli"],
        credentials=found["credentials"],
        units=found["units"],
    )


if __name__ == "__main__":
    main()
