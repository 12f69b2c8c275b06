"""Module that looks at a node and chooses how it is repaired."""

from __future__ import annotations

DOCUMENTATION = r"""
module: repair_choice
author: busbar contributors
short_description: Choose how a node is repaired
description:
  - Reads the note of the health check on the node, has the health check look once more, and chooses between a reset of
    its GPUs, a reboot, and none of them. It changes nothing.
extends_documentation_fragment: busbar.cluster.attributes.read_only
options:
  node:
    description: What the filter P(busbar.cluster.repair_plan#filter) says of the node.
    type: dict
    required: true
  note:
    description: File with the note of the health check, whose first line is the severity.
    type: path
    required: true
  program:
    description: The health check.
    type: path
    required: true
  allowed:
    description: The most that is done without asking.
    type: str
    choices: [none, reset, reboot]
    required: true
  limit:
    description: How many repairs a node gets in seven days.
    type: int
    required: true
"""

EXAMPLES = r"""
- name: Choose how the node is repaired
  busbar.cluster.repair_choice:
    node: "{{ plan.nodes[inventory_hostname] }}"
    note: /var/lib/busbar/health.note
    program: /usr/local/lib/busbar/node_health
    allowed: reboot
    limit: 2
  register: __example_choice
"""

RETURN = r"""
do:
  description: One of V(reset), V(reboot), V(isolate) and V(skip).
  returned: always
  type: str
why:
  description: Why, in words.
  returned: always
  type: str
"""

import os
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.health.repairs import choose


def text_of(path: Path) -> str:
    """Return what is in a file, nothing where it cannot be read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "node": {"type": "dict", "required": True},
            "note": {"type": "path", "required": True},
            "program": {"type": "path", "required": True},
            "allowed": {"type": "str", "choices": ["none", "reset", "reboot"], "required": True},
            "limit": {"type": "int", "required": True},
        },
        supports_check_mode=True,
    )
    given = module.params
    # Without one there is nothing that it finds, and the note alone decides.
    can_look = os.access(given["program"], os.X_OK)
    look = module.run_command([given["program"], "--look", "--json"])[1] if can_look else ""
    choice = choose(given["node"], text_of(Path(given["note"])), look, given["allowed"], given["limit"])
    module.exit_json(changed=False, **choice)


if __name__ == "__main__":
    main()
