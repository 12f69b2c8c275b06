"""Lookup of the public keys of the cluster's authority for SSH."""

from __future__ import annotations

DOCUMENTATION = r"""
name: ssh_authority
author: busbar contributors
short_description: Public keys of the cluster's authority for SSH
description:
  - Returns the public key of the authority whose private key is C(ssh_ca) in O(directory); made at its first use.
  - During a rotation C(ssh_ca_next) or C(ssh_ca_previous) is trusted too, and its public key follows.
  - In check mode a missing authority is not written; the answer is made up for that one call.
options:
  _terms:
    description: None.
  directory:
    description: Where the secrets are kept; by default the value of the variable C(cluster_secrets_dir).
    type: str
"""

EXAMPLES = r"""
keys: "{{ query('busbar.cluster.ssh_authority') }}"
"""

RETURN = r"""
_raw:
  description: One line per key, that of the signing one first.
  type: list
  elements: str
"""

from typing import Any

from ..plugin_utils.border import lookup_border
from ..plugin_utils.secrets_lookup import SecretsLookup
from ..plugin_utils.ssh_authority import trusted_lines


class LookupModule(SecretsLookup):
    """The lookup `busbar.cluster.ssh_authority`."""

    @lookup_border
    def run(self, _terms: list[str], variables: dict[str, Any] | None = None, **kwargs: object) -> list[str]:
        """Return the trusted public keys."""
        directory, create = self.open_secrets(variables, kwargs)
        return trusted_lines(directory, create=create)
