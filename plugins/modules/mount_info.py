"""Module that looks at shared trees that are bound in, and at what the kernel has for storage."""

from __future__ import annotations

DOCUMENTATION = r"""
module: mount_info
author: busbar contributors
short_description: Whether shared trees are there, and what the kernel has for storage
description:
  - Looks at the table of mounts, the modules of the running kernel and its RDMA devices, and changes nothing.
extends_documentation_fragment: busbar.cluster.attributes.read_only
options:
  bound:
    description: Paths of shared trees that must be there, bound in from outside; something is mounted at or above them.
    type: list
    elements: str
    default: []
  quota:
    description: Directory, which may not exist yet, whose file system must have user quotas.
    type: path
  kernel_modules:
    description: Modules that the kernel is asked for.
    type: list
    elements: str
    default: []
  host:
    description: Name of the host, for the problems.
    type: str
    required: true
  key:
    description: Name of the variable that declares the trees, for the problems.
    type: str
    required: true
"""

EXAMPLES = r"""
- name: Look at the shared tree
  busbar.cluster.mount_info:
    bound: [/shared]
    host: "{{ inventory_hostname }}"
    key: nfs_client_mounts
  register: looked
"""

RETURN = r"""
problems:
  description: What is wrong, each with C(hosts), C(key), C(problem) and C(remedy).
  type: list
  elements: dict
  returned: always
kernel:
  description: For each of the asked-for modules whether the running kernel has it.
  type: dict
  returned: always
rdma_devices:
  description: Names of the RDMA devices.
  type: list
  elements: str
  returned: always
processors:
  description: How many processors the host has, also those that are switched off.
  type: int
  returned: always
"""

import os
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.common.problems import make_problem
from ..module_utils.storage.home_quota import QuotaError, file_system
from ..module_utils.storage.mount_look import Examination


def main() -> None:
    """Run the module."""
    texts = {"type": "list", "elements": "str", "default": []}
    module = AnsibleModule(
        argument_spec={
            "bound": texts,
            "quota": {"type": "path"},
            "kernel_modules": texts,
            "host": {"type": "str", "required": True},
            "key": {"type": "str", "required": True, "no_log": False},
        },
        supports_check_mode=True,
    )
    found = Examination(module, module.params["host"], module.params["key"])
    found.look_bound(module.params["bound"])
    if module.params["quota"]:
        try:
            file_system(module.params["quota"])
        except QuotaError as error:
            problem, _, remedy = str(error).partition("; ")
            found.problems.append({**make_problem([found.host], found.key, problem, remedy)})
    devices = Path("/sys/class/infiniband")
    module.exit_json(
        changed=False,
        problems=found.problems,
        kernel={name: found.has(name) for name in module.params["kernel_modules"]},
        rdma_devices=sorted(os.listdir(devices)) if devices.is_dir() else [],  # noqa: PTH208 - plain names are wanted
        processors=os.sysconf("SC_NPROCESSORS_CONF"),
    )


if __name__ == "__main__":
    main()
