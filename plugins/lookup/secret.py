"""Lookup of a secret that is made at its first use."""

from __future__ import annotations

DOCUMENTATION = r"""
name: secret
author: busbar contributors
short_description: A secret kept on the provisioning host, made at its first use
description:
  - Returns the text of the file O(_terms) in O(directory).
  - A file that is missing is made with O(bytes) random bytes, mode 0600.
  - Many hosts may ask at once and all get the same secret.
  - In check mode a missing secret is not written; a value made up for that one call is returned.
  - Fails when the file is unreadable, no regular file, too short, or open to others.
options:
  _terms:
    description: Plain file names.
    required: true
    type: list
    elements: str
  bytes:
    description: Random bytes in the secret; a shorter one is refused.
    type: int
    default: 32
  encoding:
    description: How the random bytes are written as text.
    type: str
    choices: [urlsafe, hex]
    default: urlsafe
  directory:
    description: Where the secrets are kept; by default the value of the variable C(cluster_secrets_dir).
    type: str
"""

EXAMPLES = r"""
- name: Write the munge key
  ansible.builtin.copy:
    content: "{{ lookup('busbar.cluster.secret', 'munge.key', bytes=128) }}"
    dest: /etc/munge/munge.key
    mode: "0400"
  no_log: true
"""

RETURN = r"""
_raw:
  description: One secret per term.
  type: list
  elements: str
"""

from typing import Any

from ..plugin_utils.border import lookup_border
from ..plugin_utils.secret_store import get_secret
from ..plugin_utils.secrets_lookup import SecretsLookup


class LookupModule(SecretsLookup):
    """The lookup `busbar.cluster.secret`."""

    @lookup_border
    def run(self, terms: list[str], variables: dict[str, Any] | None = None, **kwargs: object) -> list[str]:
        """Return one secret per term."""
        directory, create = self.open_secrets(variables, kwargs)
        size, encoding = self.get_option("bytes"), self.get_option("encoding")
        return [get_secret(directory, term, size, encoding, create=create) for term in terms]
