"""Module that waits until a replica has what the cluster's own directory has."""

from __future__ import annotations

DOCUMENTATION = r"""
module: ldap_replica
author: busbar contributors
short_description: Wait until a replica has what the cluster's own directory has
description:
  - Fails where the replica has changes that its server does not have, since it follows such a server no more.
  - Waits until the slapd of this host has each change that its server had when it was asked, and answers over TLS with
    a certificate that the authority has signed. Changes nothing.
  - Works as root of the host, through the socket of slapd, with the tools of ldap-utils.
extends_documentation_fragment: busbar.cluster.attributes
options:
  suffix:
    description: Name at the root of the directory.
    type: str
    required: true
  server_uri:
    description: Where the directory answers that is copied.
    type: str
    required: true
  reader:
    description: Name of the account with which hosts read.
    type: str
    required: true
  reader_password:
    description: Its password.
    type: str
    required: true
  tls_uri:
    description: Where the replica answers over TLS.
    type: str
    required: true
  tls_ca_file:
    description: The authority that has signed both certificates.
    type: path
    required: true
  wait_s:
    description: How many seconds to wait.
    type: int
    default: 120
"""

EXAMPLES = r"""
- name: Wait until the replica has the users
  busbar.cluster.ldap_replica:
    suffix: dc=cluster,dc=internal
    server_uri: ldaps://ctl:636
    reader: cn=reader,ou=services,dc=cluster,dc=internal
    reader_password: "{{ identity_password }}"
    tls_uri: ldaps://login:636
    tls_ca_file: /etc/busbar/tls/ca.crt
  no_log: true
"""

RETURN = r"""
changes:
  description: The newest changes that the server had, C(contextCSN).
  returned: always
  type: list
  elements: str
"""

import time

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.access.ldap_replica import is_behind
from ..module_utils.access.ldap_tools import SOCKET, Connection, LdapError, wait_for

CSN = "contextCSN"


def numbers(connection: Connection, suffix: str) -> list[str]:
    """The newest changes of a directory.

    Raises:
        LdapError: it does not answer, or refuses.
    """
    found = connection.search(suffix, "base", "(objectClass=*)", CSN)
    return [value for entry in found for value in entry.get(CSN.lower(), [])]


def follow(module: AnsibleModule) -> list[str]:
    """Wait until nothing is missing; the newest changes of the server.

    Raises:
        LdapError: one of the two does not answer, or the replica does not follow.
    """
    given, deadline = module.params, time.monotonic() + module.params["wait_s"]
    own = Connection(SOCKET)
    wait_for(own, given["wait_s"])
    server = Connection(
        given["server_uri"], ca_file=given["tls_ca_file"], dn=given["reader"], password=given["reader_password"]
    )
    wanted: list[str] = []
    while True:
        here = numbers(own, given["suffix"])
        there = numbers(server, given["suffix"])
        if here and there and is_behind(there, here):
            message = (
                f"this replica has changes that {given['server_uri']} does not have, which was restored or is another"
                " host than before, and follows it no more; to take what is there: systemctl stop slapd,"
                " mv /var/lib/ldap /var/lib/ldap.before, and run this again"
            )
            raise LdapError(255, message)
        wanted = wanted or there
        if not is_behind(here, wanted):
            break
        if time.monotonic() > deadline:
            message = f"the replica did not get the changes of {given['server_uri']} within {given['wait_s']} seconds"
            raise LdapError(255, message)
        time.sleep(0.5)
    wait_for(Connection(given["tls_uri"], ca_file=given["tls_ca_file"]), given["wait_s"])
    return wanted


def main() -> None:
    """Run the module."""
    word = {"type": "str", "required": True}
    module = AnsibleModule(
        argument_spec={
            "suffix": word,
            "server_uri": word,
            "reader": word,
            "reader_password": {**word, "no_log": True},
            "tls_uri": word,
            "tls_ca_file": {"type": "path", "required": True},
            "wait_s": {"type": "int", "default": 120},
        },
        supports_check_mode=True,
    )
    try:
        changes = follow(module)
    except LdapError as error:
        module.fail_json(msg=f"{error}: see journalctl -u slapd here and on the server of the directory")
    module.exit_json(changed=False, changes=changes)


if __name__ == "__main__":
    main()
