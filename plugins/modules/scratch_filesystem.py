"""Module that makes or starts the scratch file system of a host."""

from __future__ import annotations

DOCUMENTATION = r"""
module: scratch_filesystem
author: busbar contributors
short_description: Create or start the scratch file system of a host
description:
  - Reads all signatures on the disks and their partitions, their users and holders, and the mount point. Then creates
    the missing parts of the array or volume and its XFS, or starts it. Does not mount it.
  - Refuses a disk that is not blank, unless O(wipe) lists its ID for that host. Never touches a disk in use. Recognizes
    an existing array, volume or file system by its name or UUID and leaves it unchanged.
  - Reads the disks again right before the first change, and changes nothing if they differ from the plan.
  - Runs programs without standard input, so that a prompt is never confirmed.
  - If programs for O(raid) are missing, runs the checks, changes nothing and returns the missing programs.
extends_documentation_fragment: busbar.cluster.attributes.diff
options:
  host:
    description: Name of the host, in O(wipe) and messages.
    type: str
    required: true
  devices:
    description: Paths of the disks.
    type: list
    elements: str
    required: true
  raid:
    description: V(mdadm) or V(lvm) for several disks, V(none) for one.
    type: str
    required: true
  name:
    description: Name of the array or volume, and label of the file system.
    type: str
    required: true
  path:
    description: Mount point of the file system.
    type: str
    required: true
  uuid:
    description: UUID for a new file system and its array.
    type: str
    required: true
  wipe:
    description: IDs of the disks that may be wiped, by host.
    type: dict
    default: {}
  chunk_kb:
    description: Chunk size of the array, in KiB.
    type: int
    required: true
  minimum_mb:
    description: Minimum size of a disk, in MiB.
    type: int
    required: true
  mkfs_options:
    description: Additional arguments of mkfs.xfs.
    type: list
    elements: str
    default: []
"""

EXAMPLES = r"""
- name: Make or start the scratch file system
  busbar.cluster.scratch_filesystem:
    host: "{{ inventory_hostname }}"
    devices:
      - /dev/disk/by-id/nvme-SAMSUNG_MZQL23T8_S64HNE0T500001
      - /dev/disk/by-id/nvme-SAMSUNG_MZQL23T8_S64HNE0T500002
    raid: mdadm
    name: scratch
    path: /scratch
    uuid: 9b2a7c54-6c0f-5f0e-8d1e-0c3c5f9d2b11
    chunk_kb: 512
    minimum_mb: 1000
"""

RETURN = r"""
uuid:
  description: UUID of the file system.
  returned: success
  type: str
array:
  description: UUID of the array, in the format of mdadm.
  returned: success
  type: str
commands:
  description: The commands that were (or in check mode would be) run.
  returned: always
  type: list
  elements: str
recipe:
  description: Commands that create this scratch file system on blank disks, each as a list of arguments.
  returned: success
  type: list
  elements: list
missing_programs:
  description: Programs that must be installed first. If there is one, nothing is changed.
  returned: success
  type: list
  elements: str
problems:
  description: Reasons for changing nothing, each with C(hosts), C(key), C(problem) and C(remedy).
  returned: failure
  type: list
  elements: dict
"""

import shlex
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.common.refusal import refusal
from ..module_utils.storage.scratch_host import module_run, read_scratch
from ..module_utils.storage.scratch_plan import declaration_problems, scratch_plan

OPTIONS: dict[str, Any] = {
    "host": {"type": "str", "required": True},
    "devices": {"type": "list", "elements": "str", "required": True},
    "raid": {"type": "str", "required": True},
    "name": {"type": "str", "required": True},
    "path": {"type": "str", "required": True},
    "uuid": {"type": "str", "required": True},
    "wipe": {"type": "dict", "default": {}},
    "chunk_kb": {"type": "int", "required": True},
    "minimum_mb": {"type": "int", "required": True},
    "mkfs_options": {"type": "list", "elements": "str", "default": []},
}
PROGRAMS = {"mdadm": ["mdadm", "mkfs.xfs"], "lvm": ["lvcreate", "mkfs.xfs"], "none": ["mkfs.xfs"]}
# The contents of an array can be read only after a first round has assembled it.
ROUNDS = 2


def refuse(module: AnsibleModule, headline: str, problems: list[Any], commands: list[str]) -> None:
    """Fail where anything is wrong."""
    if problems:
        module.fail_json(commands=commands, **refusal(headline, problems))


def run_steps(module: AnsibleModule, seen: dict[str, Any], steps: list[list[str]], commands: list[str]) -> None:
    """Run the commands planned for the inspected state; fail at the first command that fails.

    Raises:
        ValueError: a device can no longer be read.
    """
    run, host = module_run(module), module.params["host"]
    if read_scratch(run, module.params["devices"], module.params["path"]) != seen:
        message = "the disks changed since they were inspected. Nothing was changed. Run again"
        module.fail_json(msg=f"{host}: {message}", commands=commands)
    for words in steps:
        commands.append(shlex.join(words))
        status, out, err = run(words)
        if status != 0:
            said = " ".join(f"{err} {out}".split()) or "not installed"
            module.fail_json(msg=f"{host}: `{commands[-1]}` failed: {said}", commands=commands)


def keep(module: AnsibleModule, missing: list[str]) -> tuple[dict[str, Any], list[str]]:
    """Bring the disks to the declared state; return the plan and the commands that were (or would be) run.

    Raises:
        ValueError: a device cannot be read.
    """
    host, commands = module.params["host"], list[str]()
    for at in range(ROUNDS):
        seen = read_scratch(module_run(module), module.params["devices"], module.params["path"])
        plan = scratch_plan(host, module.params, seen)
        headline = "No further changes were made to the disks:" if at else "The disks were not changed:"
        refuse(module, headline, plan["problems"], commands)
        if module.check_mode:
            return plan, [shlex.join(words) for words in plan["steps"]]
        if missing or not plan["steps"]:
            break
        run_steps(module, seen, plan["steps"], commands)
    return plan, commands


def main() -> None:
    """Run the module."""
    module = AnsibleModule(argument_spec=OPTIONS, supports_check_mode=True)
    host, raid = module.params["host"], module.params["raid"]
    refuse(module, "Scratch cannot be created as declared:", declaration_problems(host, module.params), [])
    missing = [name for name in PROGRAMS[raid] if module.get_bin_path(name) is None]
    try:
        plan, commands = keep(module, missing)
    except (OSError, ValueError) as exc:
        module.fail_json(msg=f"{host}: scratch_devices: {exc}")
    text = "".join(f"{line}\n" for line in commands)
    module.exit_json(
        changed=bool(commands),
        commands=commands,
        diff=[{"before": "", "after": text, "after_header": module.params["path"]}] if commands else [],
        missing_programs=missing,
        uuid=plan["uuid"],
        array=plan["array"],
        recipe=plan["recipe"],
    )


if __name__ == "__main__":
    main()
