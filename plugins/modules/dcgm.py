"""Module that chooses the packages of DCGM by the driver of a host."""

from __future__ import annotations

DOCUMENTATION = r"""
module: dcgm
author: busbar contributors
short_description: Choose the packages of DCGM for a host
description:
  - Reads the version of the driver, of its library NVML before that of the loaded module, and chooses the packages of
    DCGM by it. It changes nothing.
  - Options with which DCGM cannot be installed fail, with all that is wrong.
extends_documentation_fragment: busbar.cluster.attributes.no_diff
options:
  host:
    description: The host's name, for messages.
    type: str
    required: true
  gpu:
    description: The part C(gpu) of the hardware profile.
    type: dict
    required: true
  package:
    description: What the names of DCGM's packages begin with.
    type: str
    required: true
  version:
    description: Version to install. Empty for any of the repository.
    type: str
    default: ""
  cuda:
    description: Major versions of CUDA to support. Empty goes by the driver.
    type: list
    elements: str
    default: []
  proprietary:
    description: Whether to install the modules that are not open.
    type: bool
    default: true
  multinode:
    description: Whether to install the diagnosis of several nodes.
    type: bool
    default: false
  hold:
    description: Whether a declared version is held.
    type: bool
    default: true
  driver:
    description: Version of the driver, in place of what the host has.
    type: str
    default: ""
  branch:
    description: Version or branch that the site declares, which counts where the host has no driver yet.
    type: str
    default: ""
  libraries:
    description: Where NVML may be.
    type: list
    elements: path
    required: true
"""

EXAMPLES = r"""
- name: Choose the packages of DCGM
  busbar.cluster.dcgm:
    host: "{{ inventory_hostname }}"
    gpu: "{{ lookup('busbar.cluster.hardware', hardware).gpu }}"
    package: datacenter-gpu-manager-4
    libraries: [/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1]
  register: __example_dcgm
"""

RETURN = r"""
packages:
  description: The packages, as M(busbar.cluster.packages) takes them. None while it waits.
  returned: success
  type: list
  elements: dict
pins:
  description: Pins of a declared version, as the role C(nvidia_repository) takes them.
  returned: success
  type: list
  elements: dict
waits:
  description: Why no package is known yet in check mode, where the driver is only planned.
  returned: success
  type: str
problems:
  description: Why DCGM cannot be installed, each with C(hosts), C(key), C(problem) and C(remedy).
  returned: failure
  type: list
  elements: dict
"""

import os
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.common.refusal import refusal
from ..module_utils.nvidia.dcgm import dcgm_plan

LOADED = Path("/sys/module/nvidia/version")
OPTIONS: dict[str, Any] = {
    "host": {"type": "str", "required": True},
    "gpu": {"type": "dict", "required": True},
    "package": {"type": "str", "required": True},
    "version": {"type": "str", "default": ""},
    "cuda": {"type": "list", "elements": "str", "default": []},
    "proprietary": {"type": "bool", "default": True},
    "multinode": {"type": "bool", "default": False},
    "hold": {"type": "bool", "default": True},
    "driver": {"type": "str", "default": ""},
    "branch": {"type": "str", "default": ""},
    "libraries": {"type": "list", "elements": "path", "required": True},
}


def main() -> None:
    """Run the module."""
    module = AnsibleModule(argument_spec=OPTIONS, supports_check_mode=True)
    given = module.params
    try:
        loaded = LOADED.read_text(encoding="utf-8") if LOADED.exists() else ""
    except OSError as exc:
        module.fail_json(msg=f"{given['host']}: the version of the loaded driver cannot be read: {exc}")
    libraries = "".join(f"{os.path.realpath(path)}\n" for path in given["libraries"] if Path(path).exists())
    found = {"libraries": libraries, "loaded": loaded, "planned": module.check_mode}
    plan = dcgm_plan(given["gpu"], {**given, **found}, given["host"])
    if plan["problems"]:
        module.fail_json(**refusal("Nothing was changed:", plan["problems"]))
    module.exit_json(changed=False, packages=plan["packages"], pins=plan["pins"], waits=plan["waits"])


if __name__ == "__main__":
    main()
