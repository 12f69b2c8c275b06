"""Issue and check TLS certificates for hosts, and decide when to renew them.

Runs only on the provisioning host, because nodes may lack the imported libraries. Keys are P-256, which all TLS
libraries in a cluster support, including those of Go and GnuTLS.
"""

from __future__ import annotations

import datetime as dt
import ipaddress
from typing import TYPE_CHECKING, NamedTuple

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cryptography.hazmat.primitives.asymmetric.types import CertificatePublicKeyTypes

_DAY_S = 86400
_AUTHORITY_DAYS = 7300
_LONGEST_NAME = 64  # characters of a common name: RFC 5280, appendix A.1 (ub-common-name)
_PEM = serialization.Encoding.PEM
_PUBLIC = (serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)


class Authority(NamedTuple):
    """The private key of a certificate authority, and its certificate."""

    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate


def make_authority(cluster: str, now: int) -> str:
    """Return a new private key and its certificate as PEM, valid for 20 years.

    Args:
        cluster: name of the cluster, for the certificate's common name.
        now: seconds since 1970.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    name = _name(f"Authority of {cluster}")
    builder = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(_time(now - _DAY_S))
        .not_valid_after(_time(now + _AUTHORITY_DAYS * _DAY_S))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )
    private = key.private_bytes(_PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return (private + builder.sign(key, hashes.SHA256()).public_bytes(_PEM)).decode()


def placeholder_key() -> str:
    """Return the public key of a discarded private key, in OpenSSH format, for check mode."""
    key = ec.generate_private_key(ec.SECP256R1()).public_key()
    return key.public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH).decode()


def read_authority(text: str) -> Authority:
    """Parse a private key and its certificate from PEM.

    Raises:
        ValueError: if one of them is missing or they do not match.
    """
    try:
        key = serialization.load_pem_private_key(text.encode(), password=None)
        certificate = read_certificates(text)[0]
    except (ValueError, TypeError, UnsupportedAlgorithm) as exc:
        message = "does not contain an unencrypted private key and its certificate in PEM format"
        raise ValueError(message) from exc
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        message = "contains a private key that is not an elliptic curve key"
        raise ValueError(message)  # noqa: TRY004 - the value is invalid, not its type
    if _bytes(key.public_key()) != _bytes(certificate.public_key()):
        message = "contains a certificate that does not match the private key"
        raise ValueError(message)
    return Authority(key, certificate)


def authority_certificate(text: str) -> str:
    """Return the certificate of a certificate authority as PEM.

    Raises:
        ValueError: if the text is not a private key with its certificate.
    """
    return read_authority(text).certificate.public_bytes(_PEM).decode()


def read_certificates(text: str) -> list[x509.Certificate]:
    """Return the certificates in a PEM text, in order.

    Raises:
        ValueError: if the text contains no certificate or an invalid one.
    """
    return x509.load_pem_x509_certificates(text.encode())


def alternative_names(names: Sequence[str]) -> list[x509.GeneralName]:
    """Return names and addresses as subject alternative names, in order, without duplicates.

    Raises:
        ValueError: if one is neither an address nor ASCII.
    """
    found: list[x509.GeneralName] = []
    for name in dict.fromkeys(names):
        try:
            found.append(x509.IPAddress(ipaddress.ip_address(name)))
        except ValueError:
            found.append(x509.DNSName(name))
    return found


def sign_host(public_key: str, authority: str, *, names: Sequence[str], now: int, days: int) -> str:
    """Return a server and client certificate for a host, as PEM.

    Its validity starts one day before `now`, because the clock of a new node may be behind, and ends no later than
    that of its authority.

    Args:
        public_key: the host's public key, as a line in OpenSSH format.
        authority: private key and certificate of the certificate authority, as PEM.
        names: names and addresses of the host; the first becomes the common name.
        now: seconds since 1970.
        days: validity in days from now.

    Raises:
        ValueError: if the authority has expired, or a key or name is unusable.
    """
    signer = read_authority(authority)
    key = _public(public_key)
    if _end(signer.certificate) <= now:
        message = "the cluster CA has expired: rename the secret tls_ca to tls_ca_previous and run again"
        raise ValueError(message)
    issuer = signer.certificate.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    usages = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
    builder = (
        x509.CertificateBuilder()
        .subject_name(_name(names[0]))
        .issuer_name(signer.certificate.subject)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(_time(now - _DAY_S))
        .not_valid_after(_time(_planned_end(signer, now, days)))
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
        .add_extension(x509.SubjectAlternativeName(alternative_names(names)), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(issuer), critical=False)
    )
    return builder.sign(signer.key, hashes.SHA256()).public_bytes(_PEM).decode()


def renewal_reason(  # noqa: PLR0913 - each is compared with the certificate
    certificate: str, public_key: str, authority: str, *, names: Sequence[str], now: int, days: int, renew_days: int
) -> str:
    """Return why a certificate must be renewed, or '' if it is valid.

    Args:
        certificate: the current certificate as PEM; '' if the host has none.
        public_key: the host's public key, as a line in OpenSSH format.
        authority: private key and certificate of the certificate authority, as PEM.
        names: the expected names and addresses.
        now: seconds since 1970.
        days: validity in days of a new certificate.
        renew_days: days before expiry from which a certificate is renewed.

    Raises:
        ValueError: if the authority or the host's key is unusable.
    """
    signer, key = read_authority(authority), _public(public_key)
    if not certificate.strip():
        return "it does not exist"
    try:
        found = read_certificates(certificate)[0]
        carried = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        found.verify_directly_issued_by(signer.certificate)
    except (ValueError, TypeError, x509.ExtensionNotFound):
        return "it cannot be read, or another authority signed it"
    except InvalidSignature:
        return "another authority signed it"
    soon = _end(found) < now + renew_days * _DAY_S
    reasons = {
        "it is for another key": _bytes(found.public_key()) != _bytes(key),
        "its names differ": list(carried) != alternative_names(names) or found.subject != _name(names[0]),
        "it is not valid yet": found.not_valid_before_utc.timestamp() > now,
        # If the authority expires soon, a new certificate would not be valid for longer, and each run would renew it.
        "it expires soon": soon and _planned_end(signer, now, days) > _end(found) + _DAY_S,
    }
    return next((reason for reason, applies in reasons.items() if applies), "")


def end_of(certificate: str) -> int:
    """Return when a certificate expires, in seconds since 1970.

    Raises:
        ValueError: if the text contains no certificate.
    """
    return _end(read_certificates(certificate)[0])


def first_end(certificates: str) -> int:
    """Return when the first of several certificates expires, in seconds since 1970.

    Raises:
        ValueError: if the text contains no certificate.
    """
    return min(map(_end, read_certificates(certificates)))


def _end(certificate: x509.Certificate) -> int:
    return int(certificate.not_valid_after_utc.timestamp())


def _planned_end(signer: Authority, now: int, days: int) -> int:
    return min(now + days * _DAY_S, _end(signer.certificate))


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common[:_LONGEST_NAME])])


def _time(seconds: int) -> dt.datetime:
    return dt.datetime.fromtimestamp(seconds, tz=dt.UTC)


def _bytes(key: CertificatePublicKeyTypes) -> bytes:
    return key.public_bytes(*_PUBLIC)


def _usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs,
        key_cert_sign=signs,
        crl_sign=signs,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _public(line: str) -> ec.EllipticCurvePublicKey | rsa.RSAPublicKey:
    try:
        key = serialization.load_ssh_public_key(" ".join(line.split()[:2]).encode())
    except (ValueError, UnsupportedAlgorithm) as exc:
        message = "the host's public key is not in OpenSSH format"
        raise ValueError(message) from exc
    # The key is RSA if the site used custom certificates before.
    if not isinstance(key, ec.EllipticCurvePublicKey | rsa.RSAPublicKey):
        message = "the host's public key is neither an elliptic curve key nor an RSA key"
        raise ValueError(message)  # noqa: TRY004 - the value is invalid, not its type
    return key
