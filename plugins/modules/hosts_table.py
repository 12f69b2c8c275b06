"""Module that maintains the cluster's names in /etc/hosts."""

from __future__ import annotations

DOCUMENTATION = r"""
module: hosts_table
author: busbar contributors (!UNKNOWN)
short_description: Manage the cluster's block in /etc/hosts
description:
  - Replaces the managed block of C(/etc/hosts), or appends it.
  - Removes the names in the block from all other lines, and removes the line of 127.0.1.1.
notes:
  - Writes C(/etc/hosts) in place if it cannot be replaced, such as a bind mount in a container.
extends_documentation_fragment: busbar.cluster.attributes.diff
options:
  block:
    description: Lines with an address and its names, between the comments C(BEGIN busbar) and C(END busbar).
    type: str
    required: true
"""

EXAMPLES = r"""
- name: Write /etc/hosts
  busbar.cluster.hosts_table:
    block: "{{ lookup('ansible.builtin.template', 'hosts_block.j2') }}"
"""

RETURN = r"""
changed_paths:
  description: The file, if it changed.
  returned: success
  type: list
  elements: str
"""

from pathlib import Path

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.common.host_files import current_text, keep_files
from ..module_utils.storage.hosts_table import hosts_file

HOSTS = Path("/etc/hosts")


def main() -> None:
    """Run the module."""
    module = AnsibleModule(argument_spec={"block": {"type": "str", "required": True}}, supports_check_mode=True)
    try:
        text = hosts_file(current_text(HOSTS) or "", module.params["block"])
        changed_paths, diff = keep_files(module, [{"path": str(HOSTS), "content": text}], unsafe_writes=True)
    except (OSError, ValueError) as exc:
        module.fail_json(msg=f"{HOSTS}: {exc}")
    module.exit_json(changed=bool(changed_paths), changed_paths=changed_paths, diff=diff)


if __name__ == "__main__":
    main()
