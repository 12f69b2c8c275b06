"""The cluster's TLS certificate authority, stored as a file on the provisioning host."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from .access.tls_certificate import authority_certificate, make_authority
from .secret_store import SecretError, read_secret, store_secret

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["CURRENT", "NEXT", "PREVIOUS", "signing_authority", "trusted_certificates"]

# Key and certificate share a file, so that they always match, even if several processes create them.
CURRENT, NEXT, PREVIOUS = "tls_ca", "tls_ca_next", "tls_ca_previous"


def signing_authority(directory: Path, cluster: str, now: int, *, create: bool = True, name: str = CURRENT) -> str:
    """Return the signing key and its certificate as PEM, and create them if they do not exist.

    Concurrent processes all get the same ones.

    Args:
        directory: the secrets directory.
        cluster: name of the cluster, for the certificate's common name.
        now: seconds since 1970.
        create: if false, a missing authority is generated for this call only and not written.
        name: file name; NEXT for the successor.

    Raises:
        SecretError: if the file cannot be read, written or trusted.
    """
    path = directory / name
    try:
        return _authority(path)
    except FileNotFoundError:
        fresh = make_authority(cluster, now)
    if not create:
        return fresh
    store_secret(path, fresh.strip())
    return _authority(path)


def trusted_certificates(directory: Path, authority: str) -> str:
    """Return the certificates that hosts trust, as PEM: the signing one, and in a rotation the next or previous one.

    Raises:
        SecretError: if a file cannot be read or trusted.
    """
    found = [authority_certificate(authority)]
    for name in (NEXT, PREVIOUS):
        with contextlib.suppress(FileNotFoundError):
            found.append(authority_certificate(_authority(directory / name)))
    return "".join(dict.fromkeys(found))


def _authority(path: Path) -> str:
    text = read_secret(path, 1)
    try:
        authority_certificate(text)
    except ValueError as exc:
        message = f"secret {path}: {exc}: restore it from a backup, or remove it to create a new authority"
        raise SecretError(message) from exc
    return f"{text}\n"
