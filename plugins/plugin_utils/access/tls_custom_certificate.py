"""Check the custom TLS certificates of a site.

Runs only on the provisioning host, because nodes may lack the imported libraries.
"""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization

from ...module_utils.common.problems import Problem, make_problem
from .tls_certificate import read_certificates

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["KINDS", "content_problems", "declaration_problems"]

KINDS = {"certificate": "the host's certificate", "key": "its private key", "ca": "the authority's certificate"}
_PUBLIC = (serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)


def declaration_problems(host: str, files: Mapping[str, object]) -> list[Problem]:
    """Return missing and unknown keys of `tls_custom_certificate`; all of KINDS are required."""
    problems = []
    for kind, meaning in KINDS.items():
        if not files.get(kind):
            remedy = f"set it to the path of {meaning} on the provisioning host, or clear tls_custom_certificate"
            problems.append(make_problem([host], f"tls_custom_certificate.{kind}", "is not set", remedy))
    known = f"use {', '.join(KINDS)}"
    unknown = sorted(set(files) - set(KINDS))
    return problems + [make_problem([host], f"tls_custom_certificate.{kind}", "is unknown", known) for kind in unknown]


def content_problems(host: str, texts: Mapping[str, str], *, reached_by: Sequence[str], now: int) -> list[Problem]:
    """Return the problems with the files' contents.

    Args:
        host: the host that uses the files.
        texts: contents of the files by KINDS.
        reached_by: names or addresses that clients use for the host, which the certificate must contain.
        now: seconds since 1970.
    """

    def problem(kind: str, what: str, remedy: str) -> Problem:
        return make_problem([host], f"tls_custom_certificate.{kind}", what, remedy)

    problems, found = [], {}
    for kind in ("certificate", "ca"):
        try:
            found[kind] = read_certificates(texts[kind])
        except ValueError:
            problems.append(problem(kind, "contains no certificate", "convert it to PEM (-----BEGIN CERTIFICATE-----)"))
    try:
        key = serialization.load_pem_private_key(texts["key"].encode(), password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        problems.append(problem("key", "contains no unencrypted private key", "convert it to unencrypted PEM"))
        return problems
    if problems:
        return problems
    leaf = found["certificate"][0]
    if leaf.public_key().public_bytes(*_PUBLIC) != key.public_key().public_bytes(*_PUBLIC):
        problems.append(problem("key", "does not match the certificate", "provide the private key of the certificate"))
    if not leaf.not_valid_before_utc.timestamp() <= now < leaf.not_valid_after_utc.timestamp():
        what = f"is valid only from {leaf.not_valid_before_utc:%Y-%m-%d} to {leaf.not_valid_after_utc:%Y-%m-%d}"
        problems.append(problem("certificate", what, "renew it, or correct the clock of the provisioning host"))
    if not _is_issued(found["certificate"], found["ca"]):
        remedy = (
            "provide the authority that signed the certificate, and append intermediate certificates to the certificate"
        )
        problems.append(problem("ca", "did not sign the certificate", remedy))
    missing = [name for name in reached_by if not _carries(leaf, name)]
    if missing:
        remedy = "request a certificate with these names in subjectAltName"
        problems.append(problem("certificate", f"does not cover {', '.join(missing)}", remedy))
    return problems


def _is_issued(chain: Sequence[x509.Certificate], trusted: Sequence[x509.Certificate]) -> bool:
    """Return whether the chain leads from its first certificate to a trusted one."""
    current, between = chain[0], list(chain[1:])
    while True:
        if any(_signed(current, authority) for authority in trusted):
            return True
        following = next((each for each in between if _signed(current, each)), None)
        if following is None:
            return False
        between.remove(following)
        current = following


def _signed(certificate: x509.Certificate, authority: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature, UnsupportedAlgorithm):
        return False
    return True


def _carries(certificate: x509.Certificate, name: str) -> bool:
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return False
    try:
        return ipaddress.ip_address(name) in names.get_values_for_type(x509.IPAddress)
    except ValueError:
        pass
    carried = [each.lower() for each in names.get_values_for_type(x509.DNSName)]
    return name.lower() in carried or f"*.{name.lower().partition('.')[2]}" in carried
