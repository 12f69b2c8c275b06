"""The cluster's certificate authority for TLS, kept as a file on the provisioning host."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from .access.tls_certificate import authority_certificate, make_authority
from .secret_store import SecretError, read_secret, store_secret

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["CURRENT", "NEXT", "PREVIOUS", "signing_authority", "trusted_certificates"]

# Key and certificate in one file: there is never one without the other, also when many processes make it at once.
CURRENT, NEXT, PREVIOUS = "tls_ca", "tls_ca_next", "tls_ca_previous"


def signing_authority(directory: Path, cluster: str, now: int, *, create: bool = True, name: str = CURRENT) -> str:
    """Return the private key and the certificate that sign, as PEM; make them first when there are none.

    Any number of processes may ask at once: all get the same ones.

    Args:
        directory: where the secrets are.
        cluster: what the authority's name speaks of.
        now: seconds since 1970.
        create: when false a missing authority is made up for this call alone and not written.
        name: of its file; NEXT for the one that is to sign after this one.

    Raises:
        SecretError: when the file cannot be read, written or trusted.
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
    """Return the certificates that hosts trust, as PEM: the authority's, in a rotation that of the next or last too.

    Raises:
        SecretError: when the file of one of these cannot be read or trusted.
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
        message = f"secret {path}: {exc}: restore it from a backup, or remove it and a new authority is made"
        raise SecretError(message) from exc
    return f"{text}\n"
