"""Certificates of SSH host keys: judged, and signed when they have to be renewed.

For the provisioning host only: what is imported here is not on every node.
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["certificate_end", "make_authority", "public_line", "renewal_reason", "sign_host_key"]

_DAY_S = 86400
_OPENSSH = (serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)


def make_authority() -> str:
    """Return a fresh private key of an authority, in OpenSSH's format."""
    key = Ed25519PrivateKey.generate()
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH, serialization.NoEncryption()
    ).decode()


def public_line(authority: str) -> str:
    """Return the public key of an authority's private key, as one line without comment.

    Raises:
        ValueError: when the text is no such key.
    """
    return _private(authority).public_key().public_bytes(*_OPENSSH).decode()


def sign_host_key(  # noqa: PLR0913 - each is a field of the certificate
    public_key: str, authority: str, *, identity: str, principals: Sequence[str], now: int, days: int
) -> str:
    """Return a certificate for a host's public key as one line, valid for so many days.

    It is valid since yesterday, because the clock of a fresh node may still be behind.

    Args:
        public_key: a line of OpenSSH.
        authority: the private key that signs.
        identity: what logs call this certificate.
        principals: names and addresses of the host.
        now: seconds since 1970.
        days: how long it shall be valid.

    Raises:
        ValueError: when one of the keys cannot be used.
    """
    builder = (
        serialization.SSHCertificateBuilder()
        .public_key(_public(public_key))
        .serial(secrets.randbits(63))
        .type(serialization.SSHCertificateType.HOST)
        .key_id(identity.encode())
        .valid_principals([name.encode() for name in principals])
        .valid_after(now - _DAY_S)
        .valid_before(now + days * _DAY_S)
    )
    return builder.sign(_private(authority)).public_bytes().decode()


def certificate_end(certificate: str) -> int:
    """Return when a certificate ends, in seconds since 1970.

    Raises:
        ValueError: when the text is none.
    """
    try:
        found = serialization.load_ssh_public_identity(certificate.strip().encode())
    except (ValueError, UnsupportedAlgorithm) as exc:
        message = "the certificate cannot be read"
        raise ValueError(message) from exc
    if not isinstance(found, serialization.SSHCertificate):
        message = "this is a plain key and no certificate"
        raise ValueError(message)  # noqa: TRY004 - what is wrong is the text that was given
    return int(found.valid_before)


def renewal_reason(  # noqa: PLR0913 - each is compared with the certificate
    certificate: str,
    public_key: str,
    authority: str,
    *,
    principals: Sequence[str],
    now: int,
    renew_days: int,
    days: int,
) -> str:
    """Return why a certificate must be made anew, or '' when it is good.

    Args:
        certificate: the present one as one line; '' when there is none.
        public_key: the host's public key.
        authority: the private key that should have signed.
        principals: names and addresses that it should carry.
        now: seconds since 1970.
        renew_days: how many days before its end it is renewed.
        days: for how many days a new one would be valid.
    """
    if not certificate.strip():
        return "there is none"
    try:
        found = serialization.load_ssh_public_identity(certificate.strip().encode())
        if not isinstance(found, serialization.SSHCertificate):
            return "it is a plain key"
        found.verify_cert_signature()
        signer = found.signature_key().public_bytes(*_OPENSSH).decode()
        subject = found.public_key().public_bytes(*_OPENSSH).decode()
    except (ValueError, InvalidSignature, UnsupportedAlgorithm):
        return "it cannot be read"
    reasons = {
        "it is for another key": subject != _plain(public_key),
        "another authority signed it": signer != public_line(authority),
        "it is not for a host": found.type is not serialization.SSHCertificateType.HOST,
        "its names differ": sorted(found.valid_principals) != sorted(name.encode() for name in principals),
        "it is not valid yet": found.valid_after > now,
        "it lasts too long": found.valid_before > now + (days + 1) * _DAY_S,
        "it ends soon": found.valid_before < now + renew_days * _DAY_S,
    }
    return next((reason for reason, applies in reasons.items() if applies), "")


def _plain(public_key: str) -> str:
    return " ".join(public_key.split()[:2])


def _public(line: str) -> Ed25519PublicKey:
    try:
        key = serialization.load_ssh_public_key(_plain(line).encode())
    except (ValueError, UnsupportedAlgorithm) as exc:
        message = "the host's public key is not one of OpenSSH"
        raise ValueError(message) from exc
    if not isinstance(key, Ed25519PublicKey):
        message = "the host's public key is not of type ed25519"
        raise ValueError(message)  # noqa: TRY004 - what is wrong is the text that was given
    return key


def _private(text: str) -> Ed25519PrivateKey:
    try:
        key = serialization.load_ssh_private_key(f"{text.strip()}\n".encode(), password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as exc:
        message = "the authority's private key is not one of OpenSSH without a passphrase"
        raise ValueError(message) from exc
    if not isinstance(key, Ed25519PrivateKey):
        message = "the authority's private key is not of type ed25519"
        raise ValueError(message)  # noqa: TRY004 - what is wrong is the text that was given
    return key
