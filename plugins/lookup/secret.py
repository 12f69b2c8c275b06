"""Lookup of a secret that is generated on first use."""

from __future__ import annotations

DOCUMENTATION = r"""
name: secret
author: busbar contributors (!UNKNOWN)
short_description: Read a secret on the provisioning host, and generate it on first use
description:
  - Returns the content of the file O(_terms) in O(directory).
  - Creates a missing file with O(bytes) random bytes, mode 0600.
  - Safe for concurrent use; all hosts get the same secret.
  - In check mode a missing secret is not written, and the lookup returns a temporary random value.
  - Fails if the file is unreadable, not a regular file, too short, or accessible to others.
options:
  _terms:
    description: Plain file names.
    required: true
    type: list
    elements: str
  bytes:
    description: Number of random bytes. The lookup fails for a shorter secret.
    type: int
    default: 32
  encoding:
    description: Encoding of the random bytes.
    type: str
    choices: [urlsafe, hex]
    default: urlsafe
  directory:
    description: Directory of the secrets. Defaults to the variable C(cluster_secrets_dir).
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

from ..plugin_utils.ansible_errors import lookup_border
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
