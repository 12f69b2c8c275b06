"""Tests that password hashes are valid and reproducible."""

from __future__ import annotations

import bcrypt
import pytest
from ansible_collections.busbar.cluster.plugins.filter.bcrypt_hash import bcrypt_hash


def test_hash_is_stable_and_matches_the_password() -> None:
    found = bcrypt_hash("correct horse", "kept", 4)
    assert found == bcrypt_hash("correct horse", "kept", 4)
    assert found.startswith("$2b$04$")
    assert bcrypt.checkpw(b"correct horse", found.encode())
    assert not bcrypt.checkpw(b"correct horses", found.encode())


@pytest.mark.parametrize(
    ("password", "salt", "message"),
    [
        ("", "kept", "0 bytes"),
        ("x" * 73, "kept", "73 bytes .expected 1 to 72"),
        ("a\0b", "kept", "zero"),
        ("x", "", "salt"),
    ],
)
def test_invalid_password_is_refused(password: str, salt: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        bcrypt_hash(password, salt, 4)
