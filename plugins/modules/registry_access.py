"""Module that asks container registries whether they take the declared credentials."""

from __future__ import annotations

DOCUMENTATION = r"""
module: registry_access
author: busbar contributors
short_description: Ask container registries whether they take credentials
description:
  - Takes the first steps of a pull, without pulling anything.
  - A registry that refuses is a problem. One that does not answer, or that cannot be asked in this way, is a note.
attributes:
  check_mode:
    description: Changes nothing in any mode.
    support: full
options:
  credentials:
    description: What is to be tried, each with C(user), C(machine), C(login) and C(password).
    type: list
    elements: dict
    required: true
    suboptions:
      user:
        description: Whose credential it is, for the problems.
        type: str
        required: true
      machine:
        description: The registry, with a port if need be.
        type: str
        required: true
      login:
        description: Login there.
        type: str
        required: true
      password:
        description: Password or token.
        type: str
        required: true
  http:
    description: Whether registries are spoken to without TLS.
    type: bool
    default: false
  host:
    description: Name of the host, for the problems.
    type: str
    required: true
  key:
    description: Name of the variable that holds the credentials, for the problems.
    type: str
    required: true
"""

EXAMPLES = r"""
- name: Ask the registries
  busbar.cluster.registry_access:
    credentials: "{{ enroot_credentials }}"
    host: "{{ inventory_hostname }}"
    key: enroot_credentials
  register: __example_registries
"""

RETURN = r"""
problems:
  description: Who refuses whom, each with C(hosts), C(key), C(problem) and C(remedy); empty when nobody does.
  returned: always
  type: list
  elements: dict
notes:
  description: One line for each that could not be asked.
  returned: always
  type: list
  elements: str
"""

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.common.problems import make_problem
from ..module_utils.containers.registry_access import REFUSED, UNKNOWN, registry_access


def main() -> None:
    """Run the module."""
    word = {"type": "str", "required": True}
    credential = {"user": word, "machine": word, "login": word, "password": {**word, "no_log": True}}
    module = AnsibleModule(
        argument_spec={
            "credentials": {"type": "list", "elements": "dict", "required": True, "options": credential},
            "http": {"type": "bool", "default": False},
            "host": word,
            "key": {**word, "no_log": False},
        },
        supports_check_mode=True,
    )
    problems, notes = [], []
    for item in module.params["credentials"]:
        found = registry_access(item["machine"], item["login"], item["password"], http=module.params["http"])
        who = f"{item['machine']}, login {item['login']} of {item['user']}"
        if found.state == REFUSED:
            remedy = "put a valid token into the vault, or take the entry out"
            problem = f"{who}: refused, {found.said}"
            problems.append(make_problem([module.params["host"]], module.params["key"], problem, remedy))
        elif found.state == UNKNOWN:
            notes.append(f"{who}: could not be tried, {found.said}")
    module.exit_json(changed=False, problems=problems, notes=notes)


if __name__ == "__main__":
    main()
