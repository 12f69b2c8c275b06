"""Module that adds, changes and removes users in the cluster's LDAP directory."""

from __future__ import annotations

DOCUMENTATION = r"""
module: directory_users
author: busbar contributors (!UNKNOWN)
short_description: Manage users of the cluster's directory, and find conflicts with any LDAP directory
description:
  - Adds, changes, locks and removes users of the directory of the role C(ldap_server), and lists them.
  - Plans all changes before making the first. If a change is not possible, changes nothing and returns the reason in
    C(problems).
  - Runs as root on the directory server, through the socket of slapd, with the tools of ldap-utils. Sets no passwords.
  - With O(compare), changes nothing, and looks up the names and IDs of local (C(/etc/passwd), C(/etc/group)) and
    declared accounts in an LDAP directory. A directory that is unreachable, is not trusted or rejects the login is also
    a problem.
extends_documentation_fragment: busbar.cluster.attributes
options:
  suffix:
    description: Base DN of the directory.
    type: str
    required: true
  changes:
    description: Changes in order. Each has C(do) (C(add), C(remove), C(lock), C(unlock), C(key) or C(group)), C(name),
      and the arguments of that change.
    type: list
    elements: dict
    default: []
  login_groups:
    description: Groups whose members may log in. New users join the first, which is also their default primary group.
    type: list
    elements: str
    default: []
  locked_group:
    description: Group whose members may not log in.
    type: str
    default: ''
  first_number:
    description: UID that the first new user gets; later users get the next free UIDs.
    type: int
    default: 20000
  home_base:
    description: Parent directory of the home directories.
    type: str
    default: /home
  shell:
    description: Login shell of new users.
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
  compare:
    description: Settings of the directory that is compared with the accounts of this host.
    type: dict
    suboptions:
      uris:
        description: URIs of the directory. The first that answers is used.
        type: list
        elements: str
        required: true
      schema:
        description: Schema of the directory, as in sssd's C(ldap_schema).
        type: str
        default: rfc2307
      start_tls:
        description: Whether to use StartTLS.
        type: bool
        default: false
      ca_file:
        description: File of the certificate authority. If empty, the authorities that the host trusts are used.
        type: str
        default: ''
      bind_dn:
        description: Bind DN. If empty, the bind is anonymous.
        type: str
        default: ''
      bind_password:
        description: Bind password.
        type: str
        default: ''
      min_id:
        description: Lower UIDs and GIDs in the directory are ignored.
        type: int
        default: 1000
  host:
    description: Name of the host, for messages.
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
messages:
  description: Changes that were made, or would be made in check mode, as text.
  returned: without O(compare)
  type: list
  elements: str
removed:
  description: Names of the removed users.
  returned: without O(compare)
  type: list
  elements: str
people:
  description: All users of the directory after the changes.
  returned: without O(compare)
  type: list
  elements: dict
problems:
  description: Reasons for changing nothing, or conflicts, each with C(hosts), C(key), C(problem) and C(remedy).
  returned: always
  type: list
  elements: dict
protected_users:
  description: Local and declared users that no directory entry may replace, except accounts that packages create.
  returned: with O(compare)
  type: list
  elements: str
protected_groups:
  description: Local and declared groups that no directory entry may replace, and groups that grant rights on any host.
  returned: with O(compare)
  type: list
  elements: str
"""

from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.access.directory_users import Directory, Settings
from ..module_utils.access.id_conflicts import Holder, clashes, declared_holders, local_holders
from ..module_utils.access.ldap_tools import SOCKET, Connection, LdapError, escaped
from ..module_utils.common.problems import make_problem

PASSWD = Path("/etc/passwd")
GROUP = Path("/etc/group")
# Keeps each search filter within a few kilobytes, which every LDAP server supports.
CHUNK = 100
# sudo and polkit rules refer to these groups; a directory group with such a name would get their privileges.
POWERFUL_GROUPS = (
    *("root", "sudo", "wheel", "admin", "docker", "lxd", "incus", "incus-admin", "libvirt", "disk", "kmem", "shadow"),
    *("staff", "adm", "systemd-journal", "netdev", "busbar-tls"),
)
# The distribution assigns lower ids, which are the same on every host; higher ids belong to people. In between,
# packages use any free id.
_LAST_FIXED = 99
_FIRST_OF_PEOPLE = 1000
# Object class and attributes with the name and id of users and groups, depending on sssd's ldap_schema.
_AD = {"user": ("user", "sAMAccountName", "uidNumber"), "group": ("group", "sAMAccountName", "gidNumber")}
_POSIX = {"user": ("posixAccount", "uid", "uidNumber"), "group": ("posixGroup", "cn", "gidNumber")}
PERSON = ("uid", "cn", "uidNumber", "gidNumber", "objectClass", "sshPublicKey")


def protected_names(kind: str, local: list[Holder]) -> set[str]:
    """Return the names that directory entries must not have."""
    return {
        holder.name for holder in local if holder.kind == kind and not _LAST_FIXED < holder.number < _FIRST_OF_PEOPLE
    }


def directory_holders(connection: Connection, base: str, schema: str, wanted: list[Holder]) -> list[Holder]:
    """Return the users and groups in a directory that share a name, UID or GID with one of `wanted`.

    Raises:
        LdapError: the directory does not answer, or rejects the search.
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


def compared(module: AnsibleModule, base: str, host: str, local: list[Holder]) -> None:
    """Exit the module with the directory users and groups that conflict with those on the host."""
    compare = module.params["compare"]
    protected = {
        "protected_users": protected_names("user", local) | {"root"},
        "protected_groups": protected_names("group", local) | {*POWERFUL_GROUPS},
    }
    names = {key: sorted(value) for key, value in protected.items()}
    refusals = []
    for uri in compare["uris"]:
        connection = Connection(
            uri,
            ca_file=compare["ca_file"],
            start_tls=compare["start_tls"],
            dn=compare["bind_dn"],
            password=compare["bind_password"],
        )
        try:
            directory = directory_holders(connection, base, compare["schema"], local)
        except LdapError as error:
            refusals.append(str(error))
            continue
        module.exit_json(
            changed=False,
            problems=clashes(host, local, directory, compare["min_id"]),
            **names,
        )
    remedy = (
        "check the address, the certificate, the bind DN and the password: sssd_uris, sssd_ca_file, "
        "sssd_bind_dn, sssd_bind_password"
    )
    module.exit_json(
        changed=False,
        problems=[
            make_problem([host], "identity_source", f"cannot query the directory: {refusal}", remedy)
            for refusal in refusals
        ],
        **names,
    )


def main() -> None:
    """Run the module."""
    items: dict[str, Any] = {"type": "list", "elements": "dict", "default": []}
    text = {"type": "str", "default": ""}
    compare = {
        "uris": {"type": "list", "elements": "str", "required": True},
        "schema": {"type": "str", "default": "rfc2307"},
        "start_tls": {"type": "bool", "default": False},
        "ca_file": text,
        "bind_dn": text,
        "bind_password": {**text, "no_log": True},
        "min_id": {"type": "int", "default": 1000},
    }
    module = AnsibleModule(
        argument_spec={
            "suffix": {"type": "str", "required": True},
            "changes": {**items, "no_log": False},
            "login_groups": {"type": "list", "elements": "str", "default": []},
            "locked_group": {"type": "str", "default": ""},
            "first_number": {"type": "int", "default": 20000},
            "home_base": {"type": "str", "default": "/home"},
            "shell": {"type": "str", "default": "/bin/bash"},
            "users": items,
            "groups": items,
            "compare": {"type": "dict", "options": compare},
            "host": {"type": "str", "required": True},
        },
        supports_check_mode=True,
    )
    given = module.params
    suffix, host = given["suffix"], given["host"]
    others = [
        *declared_holders(given["users"], given["groups"]),
        *local_holders(PASSWD, "user"),
        *local_holders(GROUP, "group"),
    ]
    if given["compare"]:
        compared(module, suffix, host, others)
    settings = Settings(**{key: given[key] for key in Settings._fields})
    root = Connection(SOCKET)
    try:
        people = root.search(f"ou=people,{suffix}", "sub", "(objectClass=posixAccount)", *PERSON)
        groups = root.search(f"ou=groups,{suffix}", "sub", "(objectClass=posixGroup)", "cn", "gidNumber", "memberUid")
        directory = Directory(people, groups, settings)
        directory.change(given["changes"], others)
        if directory.ldif and not directory.errors and not module.check_mode:
            root.run("ldapmodify", text="".join(directory.ldif))
    except LdapError as error:
        module.fail_json(msg=f"{error}: see journalctl -u slapd on {host}")
    remedy = "fix this error and run the command again"
    module.exit_json(
        changed=bool(directory.ldif) and not directory.errors,
        messages=directory.messages,
        removed=directory.removed,
        people=directory.people(),
        problems=[make_problem([host], "busbar user", problem, remedy) for problem in directory.errors],
    )


if __name__ == "__main__":
    main()
