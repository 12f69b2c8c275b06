"""Filter that hashes a password the way Prometheus and its exporters check one."""

from __future__ import annotations

DOCUMENTATION = r"""
name: bcrypt_hash
author: busbar contributors
short_description: bcrypt hash of a password, the same at every run
description:
  - Hashes a password with a salt made of O(salt), so that an unchanged password leaves its files unchanged.
options:
  _input:
    description: The password, of 72 bytes at most; bcrypt takes no longer one.
    type: str
    required: true
  salt:
    description: A text that is random and is kept, such as another secret. It need not be secret.
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

from typing import TYPE_CHECKING

from ansible.errors import AnsibleFilterError

from ..module_utils.access.password_hash import bcrypt_hash

if TYPE_CHECKING:
    from collections.abc import Callable


def hashed(password: str, salt: str, rounds: int = 10) -> str:
    """Return the hash of a password.

    Raises:
        AnsibleFilterError: when the password cannot be hashed.
    """
    try:
        return bcrypt_hash(password, salt, rounds)
    except ValueError as exc:
        raise AnsibleFilterError(str(exc)) from exc


class FilterModule:
    """The filter `busbar.cluster.bcrypt_hash`."""

    def filters(self) -> dict[str, Callable[..., str]]:
        """Return the filter by name."""
        return {"bcrypt_hash": hashed}
