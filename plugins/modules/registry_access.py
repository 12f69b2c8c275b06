"""Module that asks container registries whether they take the declared credentials."""

from __future__ import annotations

DOCUMENTATION = r"""
module: registry_access
author: busbar contributors
short_description: Ask container registries whether they take credentials
description:
  - Takes the first steps of a pull, without pulling anything.
  - A registry that refuses is a problem, and so is one whose tokens come from a host for which the user has no login.
    One that does not answer, or that cannot be asked in this way, is a note.
extends_documentation_fragment: busbar.cluster.attributes.read_only
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
        description: Name of the registry.
        type: str
        required: true
      port:
        description: Port that it is asked at, if it is not that of the scheme.
        type: int
      login:
        description: Login there.
        type: str
        required: true
      password:
        description: Password or token. One in C($(…)) is not tried, since the user's shell works it out.
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

from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.common.problems import make_problem
from ..module_utils.containers.enroot_credentials import is_evaluated, with_token_hosts
from ..module_utils.containers.registry_access import MISSING, REFUSED, UNKNOWN, Login, registry_access


def logins_of(credentials: list[dict[str, Any]]) -> dict[str, dict[str, Login]]:
    """Return for each user the logins by machine, with those that the host of tokens is given."""
    found: dict[str, dict[str, Login]] = {}
    for item in with_token_hosts(credentials):
        password = None if is_evaluated(item["password"]) else item["password"]
        login = Login(item["machine"], item["login"], password, item["port"])
        found.setdefault(item["user"], {})[item["machine"]] = login
    return found


def main() -> None:
    """Run the module."""
    word = {"type": "str", "required": True}
    credential = {"user": word, "machine": word, "port": {"type": "int"}, "login": word}
    credential["password"] = {**word, "no_log": True}
    module = AnsibleModule(
        argument_spec={
            "credentials": {"type": "list", "elements": "dict", "required": True, "options": credential},
            "http": {"type": "bool", "default": False},
            "host": word,
            "key": {**word, "no_log": False},
        },
        supports_check_mode=True,
    )
    problems, notes = [], {}
    for user, logins in logins_of(module.params["credentials"]).items():
        gives_tokens = set()
        for machine, login in logins.items():
            found = registry_access(login, logins, http=module.params["http"])
            gives_tokens.add(found.tokens)
            port = f":{login.port}" if login.port else ""
            who = f"{machine}{port}, login {login.login} of {user}"
            if found.state == REFUSED:
                problem, remedy = f"refused, {found.said}", "put a valid token into the vault, or take the entry out"
            elif found.state == MISSING:
                problem, remedy = found.said, f"add an entry of {user} with machine: {found.tokens}"
            else:
                if found.state == UNKNOWN:
                    notes[user, machine] = f"{who}: could not be tried, {found.said}"
                continue
            text = f"{who}: {problem}"
            problems.append(make_problem([module.params["host"]], module.params["key"], text, remedy))
        # A host that only gives tokens is no registry, and was tried with the one whose tokens it gives.
        for machine in gives_tokens:
            notes.pop((user, machine), None)
    module.exit_json(changed=False, problems=problems, notes=list(notes.values()))


if __name__ == "__main__":
    main()
