"""Module that decides how node_exporter runs on a host."""

from __future__ import annotations

DOCUMENTATION = r"""
module: node_exporter
author: busbar contributors
short_description: Decide how node_exporter runs on a host
description:
  - Validates the options of the role C(node_exporter), checks that its port is free on the host, and returns its
    command and what the exporter says of the host. It changes nothing.
  - What is wrong fails, all of it at once.
extends_documentation_fragment: busbar.cluster.attributes.no_diff
options:
  host:
    description: The host's name, for messages.
    type: str
    required: true
  address:
    description: Where it listens.
    type: str
    required: true
  port:
    description: Its port.
    type: int
    required: true
  unit:
    description: The service that may hold the port.
    type: str
    required: true
  settings:
    description:
      - The options of the role by their names without its own; C(web_config) says whether there is one.
      - C(program) is its path, C(packaged) says whether the distribution has it, and C(web_flag) is the flag by which
        that one takes its web configuration.
      - C(profile) is the hardware profile, C(hardware_name) its name, C(facts) what else is said of the host.
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: Decide how node_exporter runs
  busbar.cluster.node_exporter:
    host: "{{ inventory_hostname }}"
    address: "{{ node_exporter_address }}"
    port: 9100
    unit: prometheus-node-exporter
    settings: "{{ example_settings }}"
  register: __example_exporter
"""

RETURN = r"""
listen:
  description: Address and port as the exporter takes them.
  returned: success
  type: str
command:
  description: Program and arguments, for ExecStart= of its unit.
  returned: success
  type: str
facts:
  description: The text of busbar_node.prom.
  returned: success
  type: str
problems:
  description: Why it cannot run, each with C(hosts), C(key), C(problem) and C(remedy).
  returned: failure
  type: list
  elements: dict
"""

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.common.port_holders import port_problems
from ..module_utils.common.refusal import refusal
from ..module_utils.monitoring.node_exporter_plan import node_exporter_plan


def main() -> None:
    """Run the module."""
    word = {"type": "str", "required": True}
    module = AnsibleModule(
        argument_spec={
            "host": word,
            "address": word,
            "port": {"type": "int", "required": True},
            "unit": word,
            "settings": {"type": "dict", "required": True},
        },
        supports_check_mode=True,
    )
    given = module.params
    host, port = given["host"], {key: given[key] for key in ("address", "port", "unit")}
    settings = {**given["settings"], "address": given["address"], "port": given["port"]}
    plan = node_exporter_plan(settings, host)
    problems = plan.pop("problems")
    try:
        problems = problems or port_problems({**port, "key": "node_exporter_port"}, host)
    except OSError as exc:
        module.fail_json(msg=f"{host}: cannot check which process holds a port: {exc}")
    if problems:
        module.fail_json(**refusal("Nothing was changed:", problems))
    module.exit_json(changed=False, **plan)


if __name__ == "__main__":
    main()
