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

from ansible.errors import AnsibleLookupError
from ansible.plugins.lookup import LookupBase

from ..plugin_utils.lookup_values import (
    check_mode,
    secrets_directory,
)
from ..plugin_utils.ssh_authority import trusted_lines


class LookupModule(LookupBase):  # type: ignore[misc]  # Ansible has no types
    """The lookup `busbar.cluster.ssh_authority`."""

    def run(self, _terms: list[str], variables: dict[str, Any] | None = None, **kwargs: object) -> list[str]:
        """Return the trusted public keys.

        Raises:
            AnsibleLookupError: when a key cannot be read, written or trusted.
        """
        known = variables or {}
        self.set_options(var_options=known, direct=kwargs)
        directory = secrets_directory(self._templar, known, self.get_option("directory"))
        try:
            return trusted_lines(directory, create=not check_mode(self._templar, known))
        except ValueError as exc:
            raise AnsibleLookupError(str(exc)) from exc
