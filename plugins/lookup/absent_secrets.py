"""Lookup of the secrets that a run would generate because the provisioning host lacks them."""

from __future__ import annotations

DOCUMENTATION = r"""
name: absent_secrets
author: busbar contributors (!UNKNOWN)
short_description: Secrets that the provisioning host would generate
description:
  - Returns the names of O(secrets) without a file in O(directory), except unused ones.
  - Generates no secret, and contacts no host.
options:
  _terms:
    description: Not used.
    type: list
    elements: str
  secrets:
    description:
      - For each name, C(used) (whether the site uses the secret) and C(option) (the variable with its value).
      - A secret needs no file if the site sets this variable to a different value.
      - If the file C(previous) exists, a rotation is in progress and the file of the secret may be absent.
    type: dict
    default: {}
  directory:
    description: Directory of the secrets. Defaults to the variable C(cluster_secrets_dir).
    type: str
"""

EXAMPLES = r"""
absent: "{{ query('busbar.cluster.absent_secrets', secrets={'munge.key': {'used': true, 'option': 'munge_key'}}) }}"
"""

RETURN = r"""
_raw:
  description: The names.
  type: list
  elements: str
"""

from typing import Any

from ..plugin_utils.secrets_lookup import SecretsLookup, is_taken


class LookupModule(SecretsLookup):
    """The lookup `busbar.cluster.absent_secrets`."""

    def run(self, terms: list[str], variables: dict[str, Any] | None = None, **kwargs: object) -> list[str]:
        """Return the names of the secrets that would be generated; `terms` are ignored."""
        del terms
        directory, _ = self.open_secrets(variables, kwargs)
        # A dangling link counts as present; the check of the secret files reports it.
        present = {path.name for path in directory.iterdir()} if directory.is_dir() else set()
        return [
            name
            for name, each in self.get_option("secrets").items()
            if each["used"]
            and not present & {name, each.get("previous", name)}
            and is_taken(name, each.get("option"), variables or {})
        ]
