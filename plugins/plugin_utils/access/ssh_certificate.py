"""Check SSH host certificates, and sign new ones.

Runs only on the provisioning host, because nodes may lack the imported libraries.
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

if TYPE_CHECKING:
    from collections.abc import Sequence

_DAY_S = 86400
_OPENSSH = (serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)


def make_authority() -> str:
    """Return a new private key for a certificate authority, in OpenSSH format."""
    key = Ed25519PrivateKey.generate()
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH, serialization.NoEncryption()
    ).decode()


def public_line(authority: str) -> str:
    """Return the public key of a certificate authority's private key, as one line without comment.

    Raises:
        ValueError: if the text is not such a key.
    """
    return _private(authority).public_key().public_bytes(*_OPENSSH).decode()


def sign_host_key(  # noqa: PLR0913 - each is a field of the certificate
    public_key: str, authority: str, *, identity: str, principals: Sequence[str], now: int, days: int
) -> str:
    """Return a certificate for a host's public key, as one line.

    Its validity starts one day before `now`, because the clock of a new node may be behind.

    Args:
        public_key: the host's public key, as a line in OpenSSH format.
        authority: the private key of the certificate authority.
        identity: key ID of the certificate, shown in logs.
        principals: names and addresses of the host.
        now: seconds since 1970.
        days: validity in days from now.

    Raises:
        ValueError: if one of the keys is unusable.
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
    """Return when a certificate expires, in seconds since 1970.

    Raises:
        ValueError: if the text is not a certificate.
    """
    try:
        found = serialization.load_ssh_public_identity(certificate.strip().encode())
    except (ValueError, UnsupportedAlgorithm) as exc:
        message = "the certificate cannot be read"
        raise ValueError(message) from exc
    if not isinstance(found, serialization.SSHCertificate):
        message = "is a plain key (expected a certificate)"
        raise ValueError(message)  # noqa: TRY004 - the value is invalid, not its type
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
    """Return why a certificate must be renewed, or '' if it is valid.

    Args:
        certificate: the current certificate, as one line; '' if the host has none.
        public_key: the host's public key.
        authority: the private key of the certificate authority.
        principals: the expected names and addresses.
        now: seconds since 1970.
        renew_days: days before expiry from which a certificate is renewed.
        days: validity in days of a new certificate.
    """
    if not certificate.strip():
        return "it does not exist"
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
        "its validity is too long": found.valid_before > now + (days + 1) * _DAY_S,
        "it expires soon": found.valid_before < now + renew_days * _DAY_S,
    }
    return next((reason for reason, applies in reasons.items() if applies), "")


def _plain(public_key: str) -> str:
    return " ".join(public_key.split()[:2])


def _public(line: str) -> Ed25519PublicKey:
    try:
        key = serialization.load_ssh_public_key(_plain(line).encode())
    except (ValueError, UnsupportedAlgorithm) as exc:
        message = "the host's public key is not in OpenSSH format"
        raise ValueError(message) from exc
    if not isinstance(key, Ed25519PublicKey):
        message = "the host's public key is not of type ed25519"
        raise ValueError(message)  # noqa: TRY004 - the value is invalid, not its type
    return key


def _private(text: str) -> Ed25519PrivateKey:
    try:
        key = serialization.load_ssh_private_key(f"{text.strip()}\n".encode(), password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as exc:
        message = "the authority's private key is not in OpenSSH format or has a passphrase"
        raise ValueError(message) from exc
    if not isinstance(key, Ed25519PrivateKey):
        message = "the authority's private key is not of type ed25519"
        raise ValueError(message)  # noqa: TRY004 - the value is invalid, not its type
    return key
