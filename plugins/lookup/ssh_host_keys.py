"""Lookup that reads and updates the ledger of certified host keys."""

from __future__ import annotations

DOCUMENTATION = r"""
name: ssh_host_keys
author: busbar contributors (!UNKNOWN)
short_description: Host keys of the cluster and their certificate authority
description:
  - Records the host key of each host of a run in C(ssh_host_keys.json) in O(directory), and returns the keys of all
    hosts.
  - A key is former if its host has a different key or was removed from the inventory. It is deleted when all its
    certificates have expired.
  - The authority's private key is C(ssh_ca) in O(directory), generated on first use. During a rotation C(ssh_ca_next)
    or C(ssh_ca_previous) is also trusted. In check mode a missing authority is generated for this call only.
options:
  _terms:
    description: Not used.
  present:
    description: Public key of each host of this run.
    type: dict
    default: {}
  hosts:
    description: Hosts of the inventory.
    type: list
    elements: str
    default: []
  days:
    description: Validity of certificates in days.
    type: int
    default: 90
  note:
    description: Whether to record the keys. Set it to false in check mode and during a rotation of the keys.
    type: bool
    default: false
  directory:
    description: Directory of the secrets. Defaults to the variable C(cluster_secrets_dir).
    type: str
"""

EXAMPLES = r"""
keys: "{{ lookup('busbar.cluster.ssh_host_keys', present={'gpu1': public_key}, hosts=groups['all'], note=true) }}"
trusted: "{{ lookup('busbar.cluster.ssh_host_keys').trusted }}"
"""

RETURN = r"""
_raw:
  description: One dictionary with C(current), the key by host, C(former), a list of keys, and C(trusted), the public
    keys of the authority, the signing one first.
  type: list
  elements: dict
"""

import time
from typing import Any

from ..plugin_utils.ansible_errors import lookup_border
from ..plugin_utils.secrets_lookup import SecretsLookup
from ..plugin_utils.ssh_authority import trusted_lines
from ..plugin_utils.ssh_ledger import current_keys, former_keys, read_ledger, updated_ledger, write_ledger


class LookupModule(SecretsLookup):
    """The lookup `busbar.cluster.ssh_host_keys`."""

    @lookup_border
    def run(self, _terms: list[str], variables: dict[str, Any] | None = None, **kwargs: object) -> list[dict[str, Any]]:
        """Return the current, previous and trusted keys."""
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
