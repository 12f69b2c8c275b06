"""The cluster's SSH certificate authority, stored as files on the provisioning host."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .access.ssh_certificate import make_authority, public_line
from .secret_store import SecretError, read_secret, store_secret

if TYPE_CHECKING:
    from pathlib import Path

CURRENT, NEXT, PREVIOUS = "ssh_ca", "ssh_ca_next", "ssh_ca_previous"


def signing_key(directory: Path, *, create: bool = True) -> str:
    """Return the signing key, and create it if it does not exist.

    Concurrent processes all get the same key.

    Args:
        directory: the secrets directory.
        create: if false, a missing key is generated for this call only and not written.

    Raises:
        SecretError: if the file cannot be read, written or trusted.
    """
    path = directory / CURRENT
    try:
        return _key(path)
    except FileNotFoundError:
        fresh = make_authority()
    if not create:
        return fresh
    store_secret(path, fresh.strip())
    return _key(path)


def trusted_lines(directory: Path, *, create: bool = True) -> list[str]:
    """Return the public keys that nodes trust: the current one, and during a rotation the next or previous one.

    Raises:
        SecretError: if a file cannot be read, written or trusted.
    """
    lines = [public_line(signing_key(directory, create=create))]
    for name in (NEXT, PREVIOUS):
        try:
            lines.append(public_line(_key(directory / name)))
        except FileNotFoundError:
            continue
    return list(dict.fromkeys(lines))


def _key(path: Path) -> str:
    text = read_secret(path, 1)
    try:
        public_line(text)
    except ValueError as exc:
        message = f"secret {path}: {exc}: restore it from a backup, or remove it to create a new authority"
        raise SecretError(message) from exc
    return text
