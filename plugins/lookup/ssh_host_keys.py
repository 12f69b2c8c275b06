"""Lookup that keeps and reads the ledger of certified host keys."""

from __future__ import annotations

DOCUMENTATION = r"""
name: ssh_host_keys
author: busbar contributors
short_description: Host keys of the cluster and the authority that certifies them
description:
  - Notes which key each host of a run shows, in C(ssh_host_keys.json) in O(directory); returns what follows for all.
  - A key is former when its host shows another one or has left the inventory. It is forgotten when no certificate of it
    can be valid any more.
  - The authority's private key is C(ssh_ca) in O(directory), made at its first use. During a rotation C(ssh_ca_next) or
    C(ssh_ca_previous) is trusted too. In check mode a missing authority is made up for that one call.
options:
  _terms:
    description: None.
  present:
    description: The public key that each host of this run shows.
    type: dict
    default: {}
  hosts:
    description: The hosts of the inventory.
    type: list
    elements: str
    default: []
  days:
    description: For how many days certificates are valid.
    type: int
    default: 90
  note:
    description: Whether the keys are noted; not in check mode, nor while keys are being replaced.
    type: bool
    default: false
  directory:
    description: Where the secrets are kept; by default the value of the variable C(cluster_secrets_dir).
    type: str
"""

EXAMPLES = r"""
keys: "{{ lookup('busbar.cluster.ssh_host_keys', present={'gpu1': public_key}, hosts=groups['all'], note=true) }}"
trusted: "{{ lookup('busbar.cluster.ssh_host_keys').trusted }}"
"""

RETURN = r"""
_raw:
  description: One dictionary with C(current), the key by host, C(former), a list of keys, and C(trusted), the public
    keys of the authority, that of the signing one first.
  type: list
  elements: dict
"""

import time
from typing import Any

from ..plugin_utils.access.ssh_key_ledger import current_keys, former_keys, updated_ledger
from ..plugin_utils.border import lookup_border
from ..plugin_utils.secrets_lookup import SecretsLookup
from ..plugin_utils.ssh_authority import trusted_lines
from ..plugin_utils.ssh_ledger import read_ledger, write_ledger


class LookupModule(SecretsLookup):
    """The lookup `busbar.cluster.ssh_host_keys`."""

    @lookup_border
    def run(self, _terms: list[str], variables: dict[str, Any] | None = None, **kwargs: object) -> list[dict[str, Any]]:
        """Return the present, the former and the trusted keys."""
        directory, create = self.open_secrets(variables, kwargs)
        present, hosts = self.get_option("present"), self.get_option("hosts")
        before = ledger = read_ledger(directory)
        trusted = trusted_lines(directory, create=create)
        if self.get_option("note"):
            days, now = self.get_option("days"), int(time.time())
            ledger = updated_ledger(before, present, hosts, trusted, now=now, days=days)
            if create and ledger != before:
                write_ledger(directory, ledger)
        return [{"current": current_keys(ledger), "former": former_keys(ledger), "trusted": trusted}]
