"""Module that decides how Slurm's metrics are collected on a host."""

from __future__ import annotations

DOCUMENTATION = r"""
module: slurm_metrics
author: busbar contributors
short_description: Decide how Slurm's metrics are collected on a host
description:
  - Validates the options of the role C(slurm_metrics), asks slurmctld for its release, and returns what of the metrics
    it gives itself and who asks for the rest. It changes nothing.
  - What is wrong fails, all of it at once.
extends_documentation_fragment: busbar.cluster.attributes.no_diff
options:
  host:
    description: The host's name, for messages.
    type: str
    required: true
  controller:
    description: Whether the host runs slurmctld, which is asked for its release.
    type: bool
    required: true
  settings:
    description: C(source), C(interval), C(timeout), C(jobs_limit), C(memory_limit) and C(user) of the role.
    type: dict
    required: true
  slurm_config:
    description: Keys of slurm.conf that the site declares.
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: Decide how metrics are collected
  busbar.cluster.slurm_metrics:
    host: "{{ inventory_hostname }}"
    controller: true
    settings: "{{ example_settings }}"
    slurm_config: "{{ slurm_config }}"
  register: __example_metrics
"""

RETURN = r"""
native:
  description: Whether slurmctld gives a part of them itself.
  returned: success
  type: bool
user:
  description: Who asks for the rest.
  returned: success
  type: str
own_user:
  description: Whether this is a user of the role's own.
  returned: success
  type: bool
problems:
  description: Why they cannot be collected, each with C(hosts), C(key), C(problem) and C(remedy).
  returned: failure
  type: list
  elements: dict
"""

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.common.refusal import refusal
from ..module_utils.slurm.metrics_plan import slurm_metrics_plan


def release(module: AnsibleModule) -> str:
    """Return what slurmctld says of its release, '' where it is not there yet."""
    program = module.get_bin_path("slurmctld")
    return str(module.run_command([program, "-V"])[1]) if program else ""


def main() -> None:
    """Run the module."""
    word, section = {"type": "str", "required": True}, {"type": "dict", "required": True}
    module = AnsibleModule(
        argument_spec={
            "host": word,
            "controller": {"type": "bool", "required": True},
            "settings": section,
            "slurm_config": section,
        },
        supports_check_mode=True,
    )
    given = module.params
    said = release(module) if given["controller"] else ""
    plan = slurm_metrics_plan(given["settings"], said, given["slurm_config"], given["host"])
    if plan["problems"]:
        module.fail_json(**refusal("Nothing was changed:", plan["problems"]))
    module.exit_json(changed=False, **{key: value for key, value in plan.items() if key != "problems"})


if __name__ == "__main__":
    main()
