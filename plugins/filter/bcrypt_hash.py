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

import base64
import hashlib

import bcrypt

from ..plugin_utils.ansible_errors import filter_module

_LONGEST = 72  # bytes; the algorithm ignores further bytes, see bcrypt's README
_SALT_BYTES = 16
# bcrypt's base64 alphabet (Provos and Mazieres 1999, "A Future-Adaptable Password Scheme").
_STANDARD = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
_BCRYPT = b"./ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"


def bcrypt_hash(password: str, salt: str, rounds: int) -> str:
    """Return the bcrypt hash of a password, with a salt derived from a string.

    Args:
        password: at most 72 bytes.
        salt: a random string that is stored for later runs.
        rounds: binary logarithm of the number of rounds, 4 to 31.

    Raises:
        ValueError: if the password is empty, too long or contains a zero byte, or the salt is empty.
    """
    secret = password.encode()
    if not secret or len(secret) > _LONGEST or b"\0" in secret:
        message = f"the password has {len(secret)} bytes (expected 1 to {_LONGEST}, without a zero byte)"
        raise ValueError(message)
    if not salt:
        message = "the salt is empty: pass a random text that is the same in all runs"
        raise ValueError(message)
    digest = hashlib.sha256(salt.encode()).digest()[:_SALT_BYTES]
    encoded = base64.b64encode(digest).rstrip(b"=").translate(bytes.maketrans(_STANDARD, _BCRYPT))
    return bcrypt.hashpw(secret, b"$2b$%02d$%s" % (rounds, encoded)).decode()


FilterModule = filter_module("bcrypt_hash", bcrypt_hash)
