"""Lookup that signs a host's TLS certificate if it needs renewal."""

from __future__ import annotations

DOCUMENTATION = r"""
name: tls_certificate
author: busbar contributors (!UNKNOWN)
short_description: TLS certificate of a host, and the trusted certificate authorities
description:
  - Returns the current certificate if it is valid for this key and these names, signed by the cluster's certificate
    authority, and does not expire within O(renew_days).
  - Otherwise signs a new one on the provisioning host with the authority's private key (C(tls_ca) in O(directory)),
    which is generated on first use.
  - With O(custom), returns certificate, key and authority from the site's files instead, or the problems with them.
  - With O(next), creates the next authority C(tls_ca_next) if it does not exist. The current authority signs
    certificates until that file replaces C(tls_ca). From then on, all hosts must trust both.
  - In check mode nothing is written, and a missing authority is generated for this call only.
options:
  _terms:
    description: Public keys of type ecdsa in OpenSSH format; in check mode one may be empty.
    type: list
    elements: str
  current:
    description: The current certificate as PEM, or empty.
    type: str
    default: ''
  names:
    description: Names and addresses of the host; the first one is its common name. Required to sign.
    type: list
    elements: str
    default: []
  days:
    description: Validity of a new certificate in days.
    type: int
    default: 365
  renew_days:
    description: Days before expiry at which a certificate is renewed.
    type: int
    default: 90
  cluster:
    description: Name of the cluster, used in the common name of the authority.
    type: str
    default: cluster
  custom:
    description: Paths of the site's files as C(certificate) (with intermediate authorities), C(key) and C(ca).
    type: dict
  host:
    description: Name of the host, for messages with O(custom).
    type: str
    default: ''
  reached_by:
    description: Names or addresses by which other hosts reach the host. The certificate of O(custom) must contain them.
    type: list
    elements: str
    default: []
  next:
    description: Whether to create the next authority.
    type: bool
    default: false
  directory:
    description: Directory of the secrets. Defaults to the variable C(cluster_secrets_dir).
    type: str
"""

EXAMPLES = r"""
next: "{{ lookup('busbar.cluster.tls_certificate', next=true, cluster=cluster_name).certificate }}"
signed: "{{ query('busbar.cluster.tls_certificate', public_key, current=present, names=['gpu1']) | first }}"
"""

RETURN = r"""
_raw:
  description:
    - For each term C(certificate) and C(trusted), both PEM, C(not_after), its expiry in seconds since 1970, and
      C(trusted_not_after), the earliest expiry of an authority in C(trusted).
    - With O(custom), one such dictionary with an additional C(key), or only C(problems). With O(next), the
      C(certificate) of the next authority.
  type: list
  elements: dict
"""

import contextlib
import ipaddress
import stat
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization

from ..module_utils.common.problems import Problem, make_problem
from ..plugin_utils.access.tls_certificate import (
    authority_certificate,
    end_of,
    first_end,
    make_authority,
    placeholder_key,
    read_certificates,
    renewal_reason,
    sign_host,
)
from ..plugin_utils.ansible_errors import lookup_border
from ..plugin_utils.secret_store import SecretError, read_secret, store_secret
from ..plugin_utils.secrets_lookup import SecretsLookup

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

# Key and certificate are in one file, so that they match even if several processes create them.
CURRENT, NEXT, PREVIOUS = "tls_ca", "tls_ca_next", "tls_ca_previous"
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
    """Return the certificates that hosts trust as PEM: the current one, and in a rotation the next or previous one.

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


_OTHERS = stat.S_IRWXG | stat.S_IRWXO


def read_files(host: str, files: Mapping[str, Any]) -> tuple[dict[str, str], list[Problem]]:
    """Return the file contents, and a problem for each unreadable file and for a key that others can access."""
    texts, problems = {}, []
    for kind, meaning in KINDS.items():
        path, key = Path(str(files[kind])), f"tls_custom_certificate.{kind}"
        try:
            texts[kind] = path.read_text(encoding="ascii")
            mode = stat.S_IMODE(path.stat().st_mode)
        except FileNotFoundError:
            remedy = f"copy {meaning} to this path on the provisioning host, or clear tls_custom_certificate"
            problems.append(make_problem([host], key, f"file {path} does not exist", remedy))
        except (OSError, UnicodeDecodeError) as exc:
            remedy = "make it a PEM file that the user who runs busbar can read"
            problems.append(make_problem([host], key, f"{path} cannot be read ({exc})", remedy))
        else:
            if kind == "key" and mode & _OTHERS:
                remedy = f"chmod 0600 {path}, and replace the key if it was read"
                problems.append(
                    make_problem([host], key, f"{path} is accessible to other users (mode {mode:04o})", remedy)
                )
    return texts, problems


def judge(host: str, files: Mapping[str, Any], reached_by: Sequence[str], now: int) -> dict[str, Any]:
    """Return the content of a host's custom certificate files, or only `problems`."""
    problems = declaration_problems(host, files)
    if problems:
        return {"problems": problems}
    texts, problems = read_files(host, files)
    problems = problems or content_problems(host, texts, reached_by=reached_by, now=now)
    if problems:
        return {"problems": problems}
    found = {"certificate": texts["certificate"], "key": texts["key"], "trusted": texts["ca"]}
    ends = {"not_after": end_of(texts["certificate"]), "trusted_not_after": first_end(texts["ca"])}
    return {"problems": [], **found, **ends}


class LookupModule(SecretsLookup):
    """The lookup `busbar.cluster.tls_certificate`."""

    @lookup_border
    def run(self, terms: list[str], variables: dict[str, Any] | None = None, **kwargs: object) -> list[dict[str, Any]]:
        """Return certificate, trusted authorities and expiry of each public key, or of the site's files."""
        now = int(time.time())
        if "custom" in kwargs:
            self.set_options(var_options=variables or {}, direct=kwargs)
            return [judge(self.get_option("host"), self.get_option("custom"), self.get_option("reached_by"), now)]
        directory, create = self.open_secrets(variables, kwargs)
        if self.get_option("next"):
            made = signing_authority(directory, self.get_option("cluster"), now, create=create, name=NEXT)
            return [{"certificate": authority_certificate(made)}]
        authority = signing_authority(directory, self.get_option("cluster"), now, create=create)
        trusted = trusted_certificates(directory, authority)
        keys = [term if create else term or placeholder_key() for term in terms]
        certificates = [self._certificate(key, authority, now) for key in keys]
        authorities: dict[str, str | int] = {"trusted": trusted, "trusted_not_after": first_end(trusted)}
        return [{"certificate": each, "not_after": end_of(each), **authorities} for each in certificates]

    def _certificate(self, public_key: str, authority: str, now: int) -> str:
        """Return the present certificate if it does not need renewal, else a new one."""
        names, days, current = self.get_option("names"), self.get_option("days"), str(self.get_option("current"))
        renew_days = self.get_option("renew_days")
        if not renewal_reason(current, public_key, authority, names=names, now=now, days=days, renew_days=renew_days):
            return current
        return sign_host(public_key, authority, names=names, now=now, days=days)
