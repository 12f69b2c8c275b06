"""Lookup that keeps and reads the ledger of certified host keys."""

from __future__ import annotations

DOCUMENTATION = r"""
name: ssh_host_keys
author: busbar contributors
short_description: Present and former host keys of the cluster
description:
  - Notes which key each host of a run shows, in C(ssh_host_keys.json) in O(directory); returns what follows for all.
  - A key is former when its host shows another one or has left the inventory. It is forgotten when no certificate of it
    can be valid any more.
options:
  _terms:
    description: None.
  present:
    description: The public key that each host of this run shows.
    type: dict
    required: true
  hosts:
    description: The hosts of the inventory.
    type: list
    elements: str
    required: true
  days:
    description: For how many days certificates are valid.
    type: int
    required: true
  note:
    description: Whether the keys are noted; not in check mode, nor while keys are being replaced.
    type: bool
    default: true
  directory:
    description: Where the secrets are kept; by default the value of the variable C(cluster_secrets_dir).
    type: str
"""

EXAMPLES = r"""
keys: "{{ lookup('busbar.cluster.ssh_host_keys', present={'gpu1': public_key}, hosts=groups['all'], days=90) }}"
"""

RETURN = r"""
_raw:
  description: One dictionary with C(current), the key by host, and C(former), a list of keys.
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
        """Return the present and the former keys."""
        directory, create = self.open_secrets(variables, kwargs)
        present, hosts = self.get_option("present"), self.get_option("hosts")
        before = ledger = read_ledger(directory)
        if self.get_option("note"):
            trusted = trusted_lines(directory, create=create)
            days, now = self.get_option("days"), int(time.time())
            ledger = updated_ledger(before, present, hosts, trusted, now=now, days=days)
            if create and ledger != before:
                write_ledger(directory, ledger)
        return [{"current": current_keys(ledger), "former": former_keys(ledger)}]
