"""Module that asks a host for its part in a MariaDB cluster, or makes it a member."""

from __future__ import annotations

DOCUMENTATION = r"""
module: galera_member
author: busbar contributors
short_description: Ask a host for its part in a MariaDB cluster, or make it a member
description:
  - With O(state=asked) it reads what the host has and is. P(busbar.cluster.galera_plan#filter) tells from that of all
    hosts which of them starts the cluster.
  - With O(state=member) it starts MariaDB where it is no member of a majority, and restarts one that is only if
    O(restart) says so. It waits until the host has all data.
extends_documentation_fragment: busbar.cluster.attributes.no_diff
options:
  state:
    description: Whether to ask only, or to make it a member.
    type: str
    choices: [asked, member]
    required: true
  first:
    description: Whether it starts the cluster; with V(false) it joins the others.
    type: bool
    default: false
  restart:
    description: Whether a member is restarted.
    type: bool
    default: false
  recover:
    description: >-
      Whether a stopped host that was killed counts its transactions, which repairs them as a start does. Not done in
      check mode.
    type: bool
    default: false
  data_directory:
    description: Where MariaDB keeps its data.
    type: path
    default: /var/lib/mysql
  socket:
    description: Where it listens.
    type: path
    required: true
  saved:
    description: Note of the last backup of this host, in JSON.
    type: path
    default: ""
  pending:
    description: Note of M(busbar.cluster.files) that is removed once the configuration is in force.
    type: path
  timeout_s:
    description: For how many seconds it may take to become a member.
    type: int
    default: 1800
"""

EXAMPLES = r"""
- name: Read the part of the host in the cluster
  busbar.cluster.galera_member:
    state: asked
    socket: /run/mysqld/mysqld.sock
  register: __example_member
"""

RETURN = r"""
member:
  description: What the host says of itself.
  returned: with O(state=asked)
  type: dict
"""

from pathlib import Path

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.slurm.galera_host import Host, StartError


def make_member(module: AnsibleModule, host: Host) -> bool:
    """Start or restart the host where that is needed; return whether it was, or would be."""
    params = module.params
    note = Path(params["pending"]) if params["pending"] else None
    wanted = params["first"] or params["restart"] or bool(note and note.exists()) or not host.is_member()
    if wanted and not module.check_mode:
        try:
            host.start(first=params["first"], timeout_s=params["timeout_s"])
        except StartError as error:
            module.fail_json(
                msg=f"MariaDB did not become a member of a majority in time; its last words:\n"
                f"{error}\nremedy: provision all hosts of slurm_database in one run, without --limit; "
                "docs/failover.md says what to do when that does not help"
            )
        if note:
            note.unlink(missing_ok=True)
    return wanted


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["asked", "member"], "required": True},
            "first": {"type": "bool", "default": False},
            "restart": {"type": "bool", "default": False},
            "recover": {"type": "bool", "default": False},
            "data_directory": {"type": "path", "default": "/var/lib/mysql"},
            "socket": {"type": "path", "required": True},
            "saved": {"type": "path", "default": ""},
            "pending": {"type": "path"},
            "timeout_s": {"type": "int", "default": 1800},
        },
        supports_check_mode=True,
    )
    params = module.params
    host = Host(params["data_directory"], params["socket"], params["saved"])
    if params["state"] == "asked":
        module.exit_json(changed=False, member=host.look(recover=params["recover"] and not module.check_mode))
    module.exit_json(changed=make_member(module, host))


if __name__ == "__main__":
    main()
