"""Module that checks shared storage before it is mounted, and the kernel's support for storage types."""

from __future__ import annotations

DOCUMENTATION = r"""
module: mount_info
author: busbar contributors (!UNKNOWN)
short_description: Check shared storage before it is mounted
description:
  - Checks mount points, servers and the client software, and fails if a mount is not possible. Tries NFS mounts
    read-only in a separate mount namespace.
  - Queries to servers and access to directories have a timeout. Active mounts are read from C(/proc/self/mountinfo).
extends_documentation_fragment: busbar.cluster.attributes.read_only
options:
  mounts:
    description: Mounts, as items of C(storage_mounts_entries).
    type: list
    elements: dict
    default: []
  packages:
    description: Packages of the clients. While one is missing, mounts are not tried.
    type: list
    elements: str
    default: []
  boot_wait_s:
    description: Seconds that a booting host waits for a server.
    type: int
    default: 300
  timeout_s:
    description: Seconds to wait for a server that does not answer.
    type: int
    default: 20
  home_base:
    description: Parent directory of the home directories, for RV(home_mounts).
    type: str
    default: ""
  bound:
    description: Paths of shared directories that are bind-mounted from outside.
    type: list
    elements: str
    default: []
  quota:
    description: Directory (it may not exist yet) whose file system must have user quotas.
    type: path
  kernel_modules:
    description: Kernel modules whose presence is returned.
    type: list
    elements: str
    default: []
  host:
    description: Name of the host, for messages.
    type: str
    required: true
  key:
    description: Name of the variable that declares the mounts, for messages.
    type: str
    required: true
"""

EXAMPLES = r"""
- name: Check the mounts
  busbar.cluster.mount_info:
    mounts:
      - {type: nfs, src: "10.0.0.10:/shared", path: /shared, options: [vers=4.2], automount: false}
    host: "{{ inventory_hostname }}"
    key: nfs_client_mounts
  register: __example_mounts
"""

RETURN = r"""
plan:
  description: C(path), C(src), C(fstype), C(opts), C(automount), C(found) and C(unit) of each mount, parents first.
    C(found) is V(mounted), V(waiting) (automount) or V(free). C(unit) is the automount unit, if any.
  type: list
  elements: dict
  returned: success
missing_packages:
  description: Those of O(packages) that are not installed.
  type: list
  elements: str
  returned: success
home_mounts:
  description: NFS mount points with home directories below O(home_base).
  type: list
  elements: str
  returned: success
notes:
  description: In check mode, servers that do not answer yet.
  type: list
  elements: str
  returned: success
problems:
  description: Errors, each with C(hosts), C(key), C(problem) and C(remedy). Those of O(mounts) fail the module and have
    C(about), V(place), V(server) or V(client).
  type: list
  elements: dict
  returned: always
kernel:
  description: For each of O(kernel_modules), whether the running kernel has it.
  type: dict
  returned: success
rdma_devices:
  description: Names of the RDMA devices.
  type: list
  elements: str
  returned: success
processors:
  description: Number of processors, including those that are offline.
  type: int
  returned: success
"""

import os
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.common.package_commands import installed_versions
from ..module_utils.common.problems import make_problem, problem_lines, refusal
from ..module_utils.storage.home_quota import QuotaError, file_system
from ..module_utils.storage.mount_state import MountCheck
from ..module_utils.storage.mounts import mount_plan, nfs_home_mounts

# Short, because a server that an earlier task would start is not running in check mode.
CHECK_TIMEOUT_S = 2


def texts(problems: list[Any]) -> list[str]:
    """Return problems as lines of text."""
    return [line for item in problems for line in problem_lines(item, ",".join(item["hosts"]))]


def refuse(module: AnsibleModule, problems: list[Any]) -> list[str]:
    """Fail if something cannot be mounted; in check mode, return unreachable servers as notes instead."""
    late = [item for item in problems if module.check_mode and item["about"] == "server"]
    wrong = [item for item in problems if item not in late]
    if any(item["about"] != "client" for item in wrong):
        module.fail_json(msg="\n".join(["Nothing was mounted:", *texts(wrong)]), problems=wrong)
    if wrong:
        module.fail_json(**refusal("Nothing was mounted:", wrong))
    return texts(late)


def check_mounts(module: AnsibleModule) -> dict[str, Any]:
    """Check the mounts, or fail the module; return the existing mounts and the plan for the others.

    Raises:
        OSError: a file or program of the host cannot be used.
        ValueError: a source is malformed.
    """
    given = module.params
    mounts = [{"options": [], "automount": False, **entry} for entry in given["mounts"]]
    has = installed_versions(module, given["packages"])
    missing = [name for name in given["packages"] if name not in has]
    timeout_s = min(CHECK_TIMEOUT_S, given["timeout_s"]) if module.check_mode else given["timeout_s"]
    found = MountCheck(module, given["host"], given["key"], timeout_s)
    found.check(mounts, client_ready=not missing)
    notes = refuse(module, found.problems)
    plan = [
        {**item, "found": found.states[item["path"]], "unit": unit_name(module, item) if item["automount"] else ""}
        for item in mount_plan(mounts, given["boot_wait_s"])
    ]
    homes = nfs_home_mounts(mounts, given["home_base"]) if given["home_base"] else []
    return {"plan": plan, "missing_packages": missing, "home_mounts": homes, "notes": notes}


def unit_name(module: AnsibleModule, item: dict[str, Any]) -> str:
    """Return the name of the automount unit of a mount."""
    command = ["systemd-escape", "--path", "--suffix=automount", item["path"]]
    return str(module.run_command(command, check_rc=True)[1]).strip()


def main() -> None:
    """Run the module."""
    strings = {"type": "list", "elements": "str", "default": []}
    module = AnsibleModule(
        argument_spec={
            "mounts": {"type": "list", "elements": "dict", "default": []},
            "packages": strings,
            "boot_wait_s": {"type": "int", "default": 300},
            "timeout_s": {"type": "int", "default": 20},
            "home_base": {"type": "str", "default": ""},
            "bound": strings,
            "quota": {"type": "path"},
            "kernel_modules": strings,
            "host": {"type": "str", "required": True},
            "key": {"type": "str", "required": True, "no_log": False},
        },
        supports_check_mode=True,
    )
    given = module.params
    try:
        mounts = check_mounts(module) if given["mounts"] else {}
    except (OSError, ValueError) as exc:
        module.fail_json(msg=f"{given['host']}: {given['key']}: {exc}")
    found = MountCheck(module, given["host"], given["key"])
    found.check_bound(given["bound"])
    if given["quota"]:
        try:
            file_system(given["quota"])
        except QuotaError as error:
            problem, _, remedy = str(error).partition("; ")
            found.problems.append({**make_problem([found.host], found.key, problem, remedy)})
    devices = Path("/sys/class/infiniband")
    module.exit_json(
        changed=False,
        **mounts,
        problems=found.problems,
        kernel={name: found.has(name) for name in given["kernel_modules"]},
        rdma_devices=sorted(os.listdir(devices)) if devices.is_dir() else [],  # noqa: PTH208 - returns strings
        processors=os.sysconf("SC_NPROCESSORS_CONF"),
    )


if __name__ == "__main__":
    main()
