"""Module that says who holds ports which a daemon is about to use."""

from __future__ import annotations

DOCUMENTATION = r"""
module: port_holders
author: busbar contributors
short_description: Who holds a port that a daemon needs
description:
  - Looks who listens on TCP ports already, and names process, pid and unit. Changes nothing.
  - A port that is held by the daemon's own unit is fine.
extends_documentation_fragment: busbar.cluster.attributes.read_only
options:
  ports:
    description: The ports.
    type: list
    elements: dict
    required: true
    suboptions:
      address:
        description: Where the daemon shall listen, an address or a name that leads to one.
        type: str
        required: true
      port:
        description: The port.
        type: int
        required: true
      unit:
        description: Unit of the daemon, with or without C(.service).
        type: str
        required: true
      key:
        description: Name of the variable that sets the port, for the problems.
        type: str
        required: true
  host:
    description: Name of the host, for the problems.
    type: str
    required: true
"""

EXAMPLES = r"""
- name: Look who holds the port
  busbar.cluster.port_holders:
    ports:
      - {address: 10.0.0.10, port: 9090, unit: prometheus, key: prometheus_port}
    host: "{{ inventory_hostname }}"
  register: __example_ports
"""

RETURN = r"""
problems:
  description: Ports that are taken, each with C(hosts), C(key), C(problem) and C(remedy); empty when all are free.
  returned: always
  type: list
  elements: dict
"""


from ansible.module_utils.basic import AnsibleModule

from ..module_utils.common.port_holders import port_problems


def main() -> None:
    """Run the module."""
    word = {"type": "str", "required": True}
    port = {"address": word, "port": {"type": "int", "required": True}, "unit": word, "key": {**word, "no_log": False}}
    module = AnsibleModule(
        argument_spec={
            "ports": {"type": "list", "elements": "dict", "required": True, "options": port},
            "host": word,
        },
        supports_check_mode=True,
    )
    host = module.params["host"]
    try:
        problems = [problem for item in module.params["ports"] for problem in port_problems(item, host)]
    except OSError as exc:
        module.fail_json(msg=f"{host}: cannot check which process holds a port: {exc}")
    module.exit_json(changed=False, problems=problems)


if __name__ == "__main__":
    main()
