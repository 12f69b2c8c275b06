"""Module that adds, changes and removes users of the cluster's own directory."""

from __future__ import annotations

DOCUMENTATION = r"""
module: directory_users
author: busbar contributors
short_description: Users of the cluster's own directory
description:
  - Adds, changes, locks and removes users of the directory of the role C(ldap_server), and lists them.
  - Plans all changes before it makes the first. When one of them cannot be, nothing is changed and C(problems) say why.
  - Works as root of the directory's host, through the socket of slapd, with the tools of ldap-utils. It sets no
    passwords.
extends_documentation_fragment: busbar.cluster.attributes
options:
  suffix:
    description: Name at the root of the directory.
    type: str
    required: true
  changes:
    description: What to do, in order. Each has C(do) (C(add), C(remove), C(lock), C(unlock), C(key) or C(group)),
      C(name), and what belongs to it.
    type: list
    elements: dict
    default: []
  login_groups:
    description: Groups whose members may log in; a new user becomes one of the first, which is the primary group, too,
      unless another is named.
    type: list
    elements: str
    required: true
  locked_group:
    description: Group whose members may not log in.
    type: str
    default: ''
  first_number:
    description: Number of the first user.
    type: int
    default: 20000
  home_base:
    description: Directory of the homes.
    type: str
    default: /home
  shell:
    description: Login shell.
    type: str
    default: /bin/bash
  users:
    description: Declared users, each with C(name), and C(uid) unless it is absent.
    type: list
    elements: dict
    default: []
  groups:
    description: Declared groups, each with C(name), and C(gid) unless it is absent.
    type: list
    elements: dict
    default: []
  host:
    description: Name of the host, for the problems.
    type: str
    required: true
"""

EXAMPLES = r"""
- name: Add erin
  busbar.cluster.directory_users:
    suffix: dc=cluster,dc=internal
    changes:
      - {do: add, name: erin, full_name: Erin Example, keys: ["ssh-ed25519 AAAA… erin@laptop"]}
    login_groups: [cluster-users]
    locked_group: cluster-locked
    host: ctl
"""

RETURN = r"""
said:
  description: What was (or in check mode would be) done, in words.
  returned: always
  type: list
  elements: str
removed:
  description: Names of the users who were removed.
  returned: always
  type: list
  elements: str
people:
  description: All users of the directory, as they are then.
  returned: always
  type: list
  elements: dict
problems:
  description: Why nothing was done, each with C(hosts), C(key), C(problem) and C(remedy).
  returned: always
  type: list
  elements: dict
"""

from pathlib import Path

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.access.directory_users import Directory, Settings
from ..module_utils.access.identity import declared_holders, local_holders
from ..module_utils.access.ldap_tools import SOCKET, Connection, LdapError
from ..module_utils.common.problems import make_problem

PASSWD, GROUP = Path("/etc/passwd"), Path("/etc/group")
PERSON = ("uid", "cn", "uidNumber", "gidNumber", "objectClass", "sshPublicKey")


def main() -> None:
    """Run the module."""
    items = {"type": "list", "elements": "dict", "default": []}
    module = AnsibleModule(
        argument_spec={
            "suffix": {"type": "str", "required": True},
            "changes": {**items, "no_log": False},
            "login_groups": {"type": "list", "elements": "str", "required": True},
            "locked_group": {"type": "str", "default": ""},
            "first_number": {"type": "int", "default": 20000},
            "home_base": {"type": "str", "default": "/home"},
            "shell": {"type": "str", "default": "/bin/bash"},
            "users": items,
            "groups": items,
            "host": {"type": "str", "required": True},
        },
        supports_check_mode=True,
    )
    given = module.params
    suffix, host = given["suffix"], given["host"]
    settings = Settings(**{key: given[key] for key in Settings._fields})
    root = Connection(SOCKET)
    try:
        people = root.search(f"ou=people,{suffix}", "sub", "(objectClass=posixAccount)", *PERSON)
        groups = root.search(f"ou=groups,{suffix}", "sub", "(objectClass=posixGroup)", "cn", "gidNumber", "memberUid")
        directory = Directory(people, groups, settings)
        others = [
            *declared_holders(given["users"], given["groups"]),
            *local_holders(PASSWD, "user"),
            *local_holders(GROUP, "group"),
        ]
        directory.change(given["changes"], others)
        if directory.ldif and not directory.wrong and not module.check_mode:
            root.run("ldapmodify", text="".join(directory.ldif))
    except LdapError as error:
        module.fail_json(msg=f"{error}: see journalctl -u slapd on {host}")
    remedy = "correct that and run it again"
    module.exit_json(
        changed=bool(directory.ldif) and not directory.wrong,
        said=directory.said,
        removed=directory.removed,
        people=directory.people(),
        problems=[make_problem([host], "busbar user", problem, remedy) for problem in directory.wrong],
    )


if __name__ == "__main__":
    main()
