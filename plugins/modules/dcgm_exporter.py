"""Module that decides how dcgm-exporter runs on a host."""

from __future__ import annotations

DOCUMENTATION = r"""
module: dcgm_exporter
author: busbar contributors
short_description: Decide how dcgm-exporter runs on a host
description:
  - Validates the options of the role C(dcgm_exporter), checks that its port is free on the host, and returns package,
    command and counters. It changes nothing.
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
  unit:
    description: The service that may hold the port.
    type: str
    required: true
  settings:
    description:
      - The options of the role by their names without its own; C(web_config) says whether there is one.
      - C(package) is the name of the package, C(dcgm_source) where DCGM comes from.
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: Decide how dcgm-exporter runs
  busbar.cluster.dcgm_exporter:
    host: "{{ inventory_hostname }}"
    gpu: "{{ dcgm_exporter_hardware.gpu }}"
    unit: nvidia-dcgm-exporter
    settings: "{{ example_settings }}"
  register: __example_exporter
"""

RETURN = r"""
packages:
  description: The package of the repository, as M(busbar.cluster.packages) takes it.
  returned: success
  type: list
  elements: dict
files:
  description: C(source) and C(packages) of a declared file, as M(busbar.cluster.package_files) takes them.
  returned: success
  type: list
  elements: dict
pins:
  description: Pins of a declared version, as the role C(nvidia_repository) takes them.
  returned: success
  type: list
  elements: dict
listen:
  description: Address and port as the exporter takes them.
  returned: success
  type: str
command:
  description: Program and arguments, for ExecStart= of its unit.
  returned: success
  type: str
counters:
  description: The text of its file of counters.
  returned: success
  type: str
problems:
  description: Why it cannot run, each with C(hosts), C(key), C(problem) and C(remedy).
  returned: failure
  type: list
  elements: dict
"""

import platform

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.common.port_holders import port_problems
from ..module_utils.common.refusal import refusal
from ..module_utils.monitoring.dcgm_exporter_plan import dcgm_exporter_plan


def main() -> None:
    """Run the module."""
    word = {"type": "str", "required": True}
    section = {"type": "dict", "required": True}
    module = AnsibleModule(
        argument_spec={"host": word, "gpu": section, "unit": word, "settings": section}, supports_check_mode=True
    )
    host, settings = module.params["host"], {"architecture": platform.machine(), **module.params["settings"]}
    plan = dcgm_exporter_plan(module.params["gpu"], settings, host)
    problems = plan.pop("problems")
    try:
        problems = problems or port_problems(
            {
                "address": settings["address"],
                "port": int(settings["port"]),
                "unit": module.params["unit"],
                "key": "dcgm_exporter_port",
            },
            host,
        )
    except OSError as exc:
        module.fail_json(msg=f"{host}: cannot check which process holds a port: {exc}")
    if problems:
        module.fail_json(**refusal("Nothing was changed:", problems))
    module.exit_json(changed=False, **plan)


if __name__ == "__main__":
    main()
