"""Filter that returns the bcrypt hash of a password in the format of Prometheus and its exporters."""

from __future__ import annotations

DOCUMENTATION = r"""
name: bcrypt_hash
author: busbar contributors (!UNKNOWN)
short_description: Reproducible bcrypt hash of a password
description:
  - Hashes a password with a salt derived from O(salt), so that an unchanged password leaves its files unchanged.
options:
  _input:
    description: The password, at most 72 bytes (a limit of bcrypt).
    type: str
    required: true
  salt:
    description: A random, persistent text, such as another secret. It need not be secret.
    type: str
    required: true
  rounds:
    description: Binary logarithm of the number of rounds, 4 to 31.
    type: int
    default: 10
"""

EXAMPLES = r"""
hash: "{{ password | busbar.cluster.bcrypt_hash(salt=lookup('busbar.cluster.secret', 'monitoring.salt')) }}"
"""

RETURN = r"""
_value:
  description: The hash, as C($2b$...).
  type: str
"""

from ..plugin_utils.access.password_hash import bcrypt_hash
from ..plugin_utils.ansible_errors import Filters, border


class FilterModule:
    """The filter `busbar.cluster.bcrypt_hash`."""

    def filters(self) -> Filters:
        """Return the filter by its name."""
        return {"bcrypt_hash": border(bcrypt_hash)}
