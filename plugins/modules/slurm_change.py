"""Module that says how changed configuration files of Slurm come into force, and what takes them back."""

from __future__ import annotations

DOCUMENTATION = r"""
module: slurm_change
author: busbar contributors
short_description: How changed configuration files of Slurm come into force, and what takes them back
description:
  - Compares the old and new texts of changed files, and asks the installed slurmctld for its release. Changes nothing.
  - Since Slurm 23.11 C(scontrol reconfigure) takes almost every change without a restart; before, it did not.
extends_documentation_fragment: busbar.cluster.attributes.read_only
options:
  changes:
    description: The C(diff) of M(busbar.cluster.templates).
    type: list
    elements: dict
    required: true
"""

EXAMPLES = r"""
- name: Choose between reconfigure and restart
  busbar.cluster.slurm_change:
    changes: "{{ written.diff }}"
  register: __example_change
"""

RETURN = r"""
action:
  description: One of V(none), V(reconfigure) and V(restart).
  returned: success
  type: str
old_files:
  description: The files as they were, as entries of the option O(busbar.cluster.templates#module:more).
  returned: always
  type: list
  elements: dict
since:
  description: When it was asked, as C(journalctl --since) takes it.
  returned: always
  type: str
"""

import time

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.slurm.change import old_files, slurm_action


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={"changes": {"type": "list", "elements": "dict", "required": True}}, supports_check_mode=True
    )
    changes = module.params["changes"]
    always = {"since": time.strftime("%Y-%m-%d %H:%M:%S"), "old_files": old_files(changes)}
    program = module.get_bin_path("slurmctld")
    if program is None:
        module.fail_json(msg="slurmctld is not installed", **always)
    status, out, err = module.run_command([program, "-V"], environ_update={"LC_ALL": "C.UTF-8"})
    if status:
        module.fail_json(msg=f"slurmctld -V ends with {status}", stderr=err.strip(), **always)
    try:
        action = slurm_action(changes, out)
    except ValueError as exc:
        module.fail_json(msg=f"slurmctld -V: {exc}", **always)
    module.exit_json(changed=False, action=action, **always)


if __name__ == "__main__":
    main()
