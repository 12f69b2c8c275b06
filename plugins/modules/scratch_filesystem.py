"""Module that creates or starts a host's scratch file system."""

from __future__ import annotations

DOCUMENTATION = r"""
module: scratch_filesystem
author: busbar contributors (!UNKNOWN)
short_description: Create or start the scratch file system of a host
description:
  - Reads all signatures, users and holders of the disks, then creates or starts array or volume and XFS.
  - Refuses a disk that is not blank, unless C(wipe) lists its ID for the host. Never changes a disk in use. Reads the
    disks again right before the first change. Runs programs without standard input, so that no prompt is confirmed.
extends_documentation_fragment: busbar.cluster.attributes.diff
options:
  host: {description: Name of the host., type: str, required: true}
  settings:
    description: C(devices), C(raid), C(name), C(path), C(uuid), C(wipe), C(chunk_kb), C(minimum_mb), C(mkfs_options).
    type: dict
    required: true
"""

EXAMPLES = r"""
- busbar.cluster.scratch_filesystem: {host: gpu1, settings: "{{ __scratch_settings }}"}
"""

RETURN = r"""
uuid: {description: UUID of the file system., returned: success, type: str}
array: {description: UUID of the array in the format of mdadm., returned: success, type: str}
commands: {description: Commands that were or would be run., returned: always, type: list, elements: str}
recipe: {description: Commands that create it from blank disks., returned: success, type: list, elements: list}
missing_programs: {description: Programs to install first., returned: success, type: list, elements: str}
"""

import shlex
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.common.problems import refusal
from ..module_utils.storage.scratch_host import module_run, read_scratch
from ..module_utils.storage.scratch_plan import declaration_problems, scratch_plan

OPTIONS: dict[str, Any] = {
    "host": {"type": "str", "required": True},
    "settings": {"type": "dict", "required": True},
}
PROGRAMS = {"mdadm": ["mdadm", "mkfs.xfs"], "lvm": ["lvcreate", "mkfs.xfs"], "none": ["mkfs.xfs"]}
# The contents of an array can be read only after the first round has assembled it.
ROUNDS = 2


def refuse(module: AnsibleModule, headline: str, problems: list[Any], commands: list[str]) -> None:
    """Fail the module if there are problems."""
    if problems:
        module.fail_json(commands=commands, **refusal(headline, problems))


def run_steps(module: AnsibleModule, seen: dict[str, Any], steps: list[list[str]], commands: list[str]) -> None:
    """Run the commands planned for the inspected state; fail at the first command that fails.

    Raises:
        ValueError: a device can no longer be read.
    """
    run, host, settings = module_run(module), module.params["host"], module.params["settings"]
    if read_scratch(run, settings["devices"], settings["path"]) != seen:
        message = "the disks have changed since the inspection. Nothing was changed. Run again"
        module.fail_json(msg=f"{host}: {message}", commands=commands)
    for words in steps:
        commands.append(shlex.join(words))
        status, out, err = run(words)
        if status != 0:
            output = " ".join(f"{err} {out}".split()) or "not installed"
            module.fail_json(msg=f"{host}: `{commands[-1]}` failed: {output}", commands=commands)


def keep(module: AnsibleModule, missing: list[str]) -> tuple[dict[str, Any], list[str]]:
    """Create or start the declared file system; return the plan and the commands that were (or would be) run.

    Raises:
        ValueError: a device cannot be read.
    """
    host, settings, commands = module.params["host"], module.params["settings"], list[str]()
    for at in range(ROUNDS):
        seen = read_scratch(module_run(module), settings["devices"], settings["path"])
        plan = scratch_plan(host, settings, seen)
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
    host, settings = module.params["host"], module.params["settings"]
    refuse(module, "The scratch file system cannot be created as declared:", declaration_problems(host, settings), [])
    missing = [name for name in PROGRAMS[settings["raid"]] if module.get_bin_path(name) is None]
    try:
        plan, commands = keep(module, missing)
    except (OSError, ValueError) as exc:
        module.fail_json(msg=f"{host}: scratch_devices: {exc}")
    text = "".join(f"{line}\n" for line in commands)
    module.exit_json(
        changed=bool(commands),
        commands=commands,
        diff=[{"before": "", "after": text, "after_header": settings["path"]}] if commands else [],
        missing_programs=missing,
        uuid=plan["uuid"],
        array=plan["array"],
        recipe=plan["recipe"],
    )


if __name__ == "__main__":
    main()
