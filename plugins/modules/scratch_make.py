"""Module that runs the commands of a plan on the disks that it was made for."""

from __future__ import annotations

DOCUMENTATION = r"""
module: scratch_make
author: busbar contributors
short_description: Run the commands of a plan on the disks that it was made for
description:
  - Reads the disks again, right before. Where anything differs from what the plan was made of, nothing is done.
  - Runs the commands one after the other, with nothing to read from, so that a program that asks gets no yes.
attributes:
  check_mode:
    description: Can run in check mode and return changed status prediction without modifying target.
    support: full
  diff_mode:
    description: Will return details on what has changed (or possibly needs changing in check mode).
    support: full
options:
  devices:
    description: Paths of the disks.
    type: list
    elements: str
    required: true
  path:
    description: Where the file system is to be mounted.
    type: path
    required: true
  seen:
    description: What M(busbar.cluster.scratch_info) returned as C(scratch), of which the plan was made.
    type: dict
    required: true
  steps:
    description: The commands, each a list of words. None changes nothing.
    type: list
    elements: list
    required: true
"""

EXAMPLES = r"""
- name: Make the array and its file system
  busbar.cluster.scratch_make:
    devices: "{{ scratch_devices }}"
    path: "{{ scratch_path }}"
    seen: "{{ __example_disks.scratch }}"
    steps: "{{ __example_plan.steps }}"
"""

RETURN = r"""
commands:
  description: The commands that were (or in check mode would be) run.
  returned: always
  type: list
  elements: str
"""

import shlex

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.storage.scratch_host import module_run, read_scratch


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "devices": {"type": "list", "elements": "str", "required": True},
            "path": {"type": "path", "required": True},
            "seen": {"type": "dict", "required": True},
            "steps": {"type": "list", "elements": "list", "required": True},
        },
        supports_check_mode=True,
    )
    run, steps = module_run(module), module.params["steps"]
    commands = [shlex.join(words) for words in steps]
    if steps and not module.check_mode:
        try:
            now = read_scratch(run, module.params["devices"], module.params["path"])
        except (OSError, ValueError) as exc:
            module.fail_json(msg=f"scratch_devices: {exc}")
        if now != module.params["seen"]:
            module.fail_json(msg="the disks have changed since they were looked at; nothing was done. Run this again")
        for words in steps:
            status, out, err = run(words)
            if status != 0:
                said = " ".join(f"{err} {out}".split()) or "it is not installed"
                module.fail_json(msg=f"`{shlex.join(words)}` failed: {said}", commands=commands)
    diff = {"before": "", "after": "".join(f"{line}\n" for line in commands), "after_header": module.params["path"]}
    module.exit_json(changed=bool(steps), commands=commands, diff=[diff] if steps else [])


if __name__ == "__main__":
    main()
