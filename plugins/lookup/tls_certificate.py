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

import time
from typing import Any

from ..plugin_utils.access.tls_certificate import (
    authority_certificate,
    end_of,
    first_end,
    placeholder_key,
    renewal_reason,
    sign_host,
)
from ..plugin_utils.ansible_errors import lookup_border
from ..plugin_utils.secrets_lookup import SecretsLookup
from ..plugin_utils.tls_authority import (
    NEXT,
    judge,
    signing_authority,
    trusted_certificates,
)


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
