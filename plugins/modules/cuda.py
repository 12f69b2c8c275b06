"""Module that decides which toolkits, NCCL and cuDNN a host gets."""

from __future__ import annotations

DOCUMENTATION = r"""
module: cuda
author: busbar contributors
short_description: Decide which toolkits, NCCL and cuDNN a host gets
description:
  - Validates the options of the role C(cuda) and returns packages, pins and module files. It changes nothing.
  - Where no driver is declared, the loaded one counts. It says what runs now, not what will run after a reboot.
  - What is wrong fails, all of it at once.
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
  settings:
    description:
      - The options of the role by their names without its own.
      - C(driver) is the declared version or branch of the driver, C(distribution) name and major version.
      - C(distribution_packages), C(nccl_packages) and C(cudnn_packages) are the names of packages there.
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: Decide which toolkits the host gets
  busbar.cluster.cuda:
    host: "{{ inventory_hostname }}"
    gpu: "{{ cuda_hardware.gpu }}"
    settings: "{{ example_settings }}"
  register: __example_cuda
"""

RETURN = r"""
toolkits:
  description: C(release), C(folder) and C(version) of each toolkit.
  returned: success
  type: list
  elements: dict
default:
  description: The release that /usr/local/cuda stands for, empty with the distribution's.
  returned: success
  type: str
packages:
  description: What to install, as M(busbar.cluster.packages) takes it.
  returned: success
  type: list
  elements: dict
absent:
  description: Patterns of packages to remove.
  returned: success
  type: list
  elements: str
pins:
  description: Pins of declared versions, as the role C(nvidia_repository) takes them.
  returned: success
  type: list
  elements: dict
modulefiles:
  description: Path and variables of the module file of each toolkit, with C(state=absent) those that go.
  returned: success
  type: list
  elements: dict
problems:
  description: Why it cannot be, each with C(hosts), C(key), C(problem) and C(remedy).
  returned: failure
  type: list
  elements: dict
"""

from pathlib import Path

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.common.refusal import refusal
from ..module_utils.nvidia.cuda import cuda_plan

LOADED = Path("/sys/module/nvidia/version")


def loaded_driver() -> str:
    """Return the version of the driver that runs, '' without one."""
    try:
        return LOADED.read_text(encoding="utf-8").strip()
    except OSError:
        return ""


def main() -> None:
    """Run the module."""
    section = {"type": "dict", "required": True}
    module = AnsibleModule(
        argument_spec={"host": {"type": "str", "required": True}, "gpu": section, "settings": section},
        supports_check_mode=True,
    )
    settings = module.params["settings"]
    settings["driver"] = settings["driver"] or loaded_driver()
    plan = cuda_plan(module.params["gpu"], settings, module.params["host"])
    if plan["problems"]:
        module.fail_json(**refusal("Nothing was changed:", plan["problems"]))
    module.exit_json(changed=False, **{key: value for key, value in plan.items() if key != "problems"})


if __name__ == "__main__":
    main()
