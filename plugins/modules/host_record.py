"""Module that records users and groups before they are made."""

from __future__ import annotations

DOCUMENTATION = r"""
module: host_record
author: busbar contributors
short_description: Record users and groups before they are made
description:
  - Notes which of them are not on the host yet, so that C(busbar provision uninstall) takes away these and no others.
  - At the first change of a host it also notes what is there before.
  - Modules of busbar note by themselves which files and packages they change. This one is for accounts, which builtin
    modules make.
notes:
  - Writes C(/var/lib/busbar/record), which only root reads. The record is no change of the host.
extends_documentation_fragment: busbar.cluster.attributes
options:
  users:
    description: Names of users.
    type: list
    elements: str
    default: []
  groups:
    description: Names of groups.
    type: list
    elements: str
    default: []
"""

EXAMPLES = r"""
- name: Record the user who is made next
  busbar.cluster.host_record:
    users: [alice]
    groups: [alice]
"""

RETURN = r""" # """

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.common.host_record import note_accounts


def main() -> None:
    """Run the module."""
    names = {"type": "list", "elements": "str", "default": []}
    module = AnsibleModule(argument_spec={"users": names, "groups": names}, supports_check_mode=True)
    note_accounts(module, module.params["users"], module.params["groups"])
    module.exit_json(changed=False)


if __name__ == "__main__":
    main()
