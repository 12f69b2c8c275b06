"""Module that finds users and groups of a directory that a host or the declaration has already."""

from __future__ import annotations

DOCUMENTATION = r"""
module: directory_clashes
author: busbar contributors
short_description: Users and groups of a directory that a host or the declaration has already
description:
  - Asks an LDAP directory for the names and numbers of the accounts in C(/etc/passwd) and C(/etc/group) and of those
    that are declared. Changes nothing.
  - A directory that cannot be reached, is not trusted or refuses the login is a problem, too.
extends_documentation_fragment: busbar.cluster.attributes.read_only
options:
  uris:
    description: Where the directory is; the first that answers is asked.
    type: list
    elements: str
    required: true
  base:
    description: Where in it users and groups are.
    type: str
    required: true
  schema:
    description: How it names them, as C(ldap_schema) of sssd.
    type: str
    default: rfc2307
  start_tls:
    description: Whether TLS begins after the connection.
    type: bool
    default: false
  ca_file:
    description: The authority that has signed its certificate; empty for those that the host trusts.
    type: str
    default: ''
  bind_dn:
    description: Who asks; empty for nobody in particular.
    type: str
    default: ''
  bind_password:
    description: The password.
    type: str
    default: ''
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
  min_id:
    description: Numbers of the directory below are not looked at.
    type: int
    default: 1000
  host:
    description: Name of the host, for the problems.
    type: str
    required: true
"""

EXAMPLES = r"""
- name: Compare the directory with the accounts of this host
  busbar.cluster.directory_clashes:
    uris: [ldaps://ldap.example.org]
    base: dc=example,dc=org
    users: "{{ users_accounts }}"
    groups: "{{ users_groups }}"
    host: "{{ inventory_hostname }}"
  register: found
"""

RETURN = r"""
problems:
  description: Clashes, or why the directory is of no use, each with C(hosts), C(key), C(problem) and C(remedy).
  returned: always
  type: list
  elements: dict
protected_users:
  description: Users of the host and of the declaration whom no entry of the directory may replace. Accounts of
    packages, which come and go, are not among them.
  returned: always
  type: list
  elements: str
protected_groups:
  description: Groups of the same kind, and those that give rights wherever they are.
  returned: always
  type: list
  elements: str
"""

from pathlib import Path

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.access.identity import Holder, clashes, declared_holders, local_holders
from ..module_utils.access.ldap_tools import Connection, LdapError, escaped
from ..module_utils.common.problems import make_problem

# A filter of a few kilobytes is no burden for any server.
CHUNK = 100
# Rules of sudo and polkit name groups, and a group of the directory with such a name would get what they give.
POWERFUL_GROUPS = (
    *("root", "sudo", "wheel", "admin", "docker", "lxd", "incus", "incus-admin", "libvirt", "disk", "kmem", "shadow"),
    *("staff", "adm", "systemd-journal", "netdev", "busbar-tls"),
)
# Below, numbers are those of the distribution, the same on every host; above, those of people. In between packages take
# what is free.
_LAST_FIXED, _FIRST_OF_PEOPLE = 99, 1000
# Class, name and number of a user and of a group, as sssd looks for them with its ldap_schema.
_AD = {"user": ("user", "sAMAccountName", "uidNumber"), "group": ("group", "sAMAccountName", "gidNumber")}
_POSIX = {"user": ("posixAccount", "uid", "uidNumber"), "group": ("posixGroup", "cn", "gidNumber")}


def protected_names(kind: str, local: list[Holder]) -> set[str]:
    """Return names that no entry of the directory may take."""
    return {
        holder.name for holder in local if holder.kind == kind and not _LAST_FIXED < holder.number < _FIRST_OF_PEOPLE
    }


def directory_holders(connection: Connection, base: str, schema: str, wanted: list[Holder]) -> list[Holder]:
    """Ask a directory for everybody who has a name or a number of somebody else.

    Raises:
        LdapError: it does not answer, or refuses.
    """
    found = []
    for kind, (kind_class, name, number) in (_AD if schema == "ad" else _POSIX).items():
        local = [holder for holder in wanted if holder.kind == kind]
        for start in range(0, len(local), CHUNK):
            parts = "".join(
                f"({name}={escaped(holder.name)})({number}={holder.number})" for holder in local[start : start + CHUNK]
            )
            for entry in connection.search(base, "sub", f"(&(objectClass={kind_class})(|{parts}))", name, number):
                place = f"the directory {connection.uri}"
                numbers = [int(value) for value in entry.get(number.lower(), []) if value.isdecimal()]
                found += [Holder(kind, one, numbers[0], place) for one in entry.get(name.lower(), []) if numbers]
    return found


def main() -> None:
    """Run the module."""
    text = {"type": "str", "default": ""}
    items = {"type": "list", "elements": "dict", "default": []}
    module = AnsibleModule(
        argument_spec={
            "uris": {"type": "list", "elements": "str", "required": True},
            "base": {"type": "str", "required": True},
            "schema": {"type": "str", "default": "rfc2307"},
            "start_tls": {"type": "bool", "default": False},
            "ca_file": text,
            "bind_dn": text,
            "bind_password": {**text, "no_log": True},
            "users": items,
            "groups": items,
            "min_id": {"type": "int", "default": 1000},
            "host": {"type": "str", "required": True},
        },
        supports_check_mode=True,
    )
    given = module.params
    local = [
        *declared_holders(given["users"], given["groups"]),
        *local_holders(Path("/etc/passwd"), "user"),
        *local_holders(Path("/etc/group"), "group"),
    ]
    protected = {
        "protected_users": protected_names("user", local) | {"root"},
        "protected_groups": protected_names("group", local) | {*POWERFUL_GROUPS},
    }
    names = {key: sorted(value) for key, value in protected.items()}
    refusals = []
    for uri in given["uris"]:
        connection = Connection(
            uri,
            ca_file=given["ca_file"],
            start_tls=given["start_tls"],
            dn=given["bind_dn"],
            password=given["bind_password"],
        )
        try:
            directory = directory_holders(connection, given["base"], given["schema"], local)
        except LdapError as error:
            refusals.append(str(error))
            continue
        module.exit_json(
            changed=False,
            problems=clashes(given["host"], local, directory, given["min_id"]),
            **names,
        )
    remedy = "check address, certificate, name and password: sssd_uris, sssd_ca_file, sssd_bind_dn, sssd_bind_password"
    module.exit_json(
        changed=False,
        problems=[
            make_problem([given["host"]], "identity_source", f"the directory is of no use: {refusal}", remedy)
            for refusal in refusals
        ],
        **names,
    )


if __name__ == "__main__":
    main()
