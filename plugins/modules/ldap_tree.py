"""Module that makes what the cluster's own directory holds before it has users."""

from __future__ import annotations

DOCUMENTATION = r"""
module: ldap_tree
author: busbar contributors
short_description: What the cluster's own directory holds before it has users
description:
  - Waits until slapd answers through its socket and over TLS, with a certificate that the authority has signed.
  - Makes the branches for people, groups and services, the policy of passwords, the account with which hosts read, and
    groups, where they are missing. Members of groups are left alone.
  - Works as root of the host, through the socket of slapd, with the tools of ldap-utils.
extends_documentation_fragment: busbar.cluster.attributes
options:
  suffix:
    description: Name at the root of the directory.
    type: str
    required: true
  reader:
    description: Name of the account with which hosts read.
    type: str
    required: true
  reader_password:
    description: Its password; another one is replaced.
    type: str
    required: true
  groups:
    description: Names of groups that are made where they are missing, with the next free number.
    type: list
    elements: str
    default: []
  first_number:
    description: Number of the first group.
    type: int
    required: true
  password_min_length:
    description: How long a password is at least that a user chooses.
    type: int
    required: true
  tls_uri:
    description: Where the directory answers over TLS.
    type: str
    required: true
  tls_ca_file:
    description: The authority that has signed its certificate.
    type: path
    required: true
  wait_s:
    description: How many seconds to wait for an answer.
    type: int
    default: 30
"""

EXAMPLES = r"""
- name: Make what every directory has
  busbar.cluster.ldap_tree:
    suffix: dc=cluster,dc=internal
    reader: cn=reader,ou=services,dc=cluster,dc=internal
    reader_password: "{{ identity_password }}"
    groups: [cluster-users]
    first_number: 20000
    password_min_length: 12
    tls_uri: ldaps://ctl:636
    tls_ca_file: /etc/busbar/tls/ca.crt
  no_log: true
"""

RETURN = r"""
made:
  description: Names of entries that were made.
  returned: always
  type: list
  elements: str
corrected:
  description: Names of entries that were corrected.
  returned: always
  type: list
  elements: str
"""

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.access.ldap_tools import (
    INVALID_CREDENTIALS,
    SOCKET,
    Connection,
    LdapError,
    add_ldif,
    modify_ldif,
    wait_for,
)
from ..module_utils.access.ldap_tree import Wanted, next_number, tree_changes, wanted_tree


def knows(uri: str, dn: str, password: str) -> bool:
    """Whether an account has this password.

    Raises:
        LdapError: that cannot be found out.
    """
    try:
        Connection(uri, dn=dn, password=password).run("ldapwhoami")
    except LdapError as error:
        if error.code == INVALID_CREDENTIALS:
            return False
        raise
    return True


def main() -> None:
    """Run the module."""
    word = {"type": "str", "required": True}
    number = {"type": "int", "required": True}
    module = AnsibleModule(
        argument_spec={
            "suffix": word,
            "reader": word,
            "reader_password": {**word, "no_log": True},
            "groups": {"type": "list", "elements": "str", "default": []},
            "first_number": number,
            "password_min_length": {**number, "no_log": False},
            "tls_uri": word,
            "tls_ca_file": {"type": "path", "required": True},
            "wait_s": {"type": "int", "default": 30},
        },
        supports_check_mode=True,
    )
    try:
        changes = bring_about(module)
        wait_for(Connection(module.params["tls_uri"], ca_file=module.params["tls_ca_file"]), module.params["wait_s"])
    except LdapError as error:
        module.fail_json(msg=f"{error}: see journalctl -u slapd")
    made, corrected = changes
    module.exit_json(changed=bool(made or corrected), made=made, corrected=corrected)


def bring_about(module: AnsibleModule) -> tuple[list[str], list[str]]:
    """Make and correct entries; return their names.

    Raises:
        LdapError: slapd refuses, or does not answer.
    """
    given = module.params
    suffix, reader, password = given["suffix"], given["reader"], given["reader_password"]
    root = Connection(SOCKET)
    wait_for(root, given["wait_s"])
    found = {entry["dn"][0]: entry for entry in root.search(suffix, "sub", "(!(uid=*))")}
    wanted = wanted_tree(suffix, reader, given["password_min_length"])
    people = root.search(f"ou=people,{suffix}", "sub", "(uidNumber=*)", "uidNumber", "gidNumber")
    taken = [
        int(value)
        for entry in [*found.values(), *people]
        for name in ("uidnumber", "gidnumber")
        for value in entry.get(name, [])
    ]
    for name in given["groups"]:
        dn = f"cn={name},ou=groups,{suffix}"
        if dn not in found:
            taken.append(next_number(taken, given["first_number"]))
            wanted.append(Wanted(dn, {"objectClass": ["posixGroup"], "gidNumber": [str(taken[-1])]}))
    missing, differing = tree_changes(wanted, found)
    secret = reader in found and not knows(SOCKET, reader, password)
    if not module.check_mode:
        for entry in missing:
            own = {"userPassword": [password]} if entry.dn == reader else {}
            root.run("ldapmodify", text=add_ldif(entry.dn, entry.attributes | own))
        for entry in differing:
            root.run("ldapmodify", text=modify_ldif(entry.dn, entry.attributes))
        if secret:
            root.run("ldapmodify", text=modify_ldif(reader, {"userPassword": [password]}))
    return [entry.dn for entry in missing], [entry.dn for entry in differing] + [reader] * secret


if __name__ == "__main__":
    main()
