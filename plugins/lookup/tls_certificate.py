"""Lookup that signs a host's certificate for TLS when it has to be renewed."""

from __future__ import annotations

DOCUMENTATION = r"""
name: tls_certificate
author: busbar contributors
short_description: Certificate of a host for TLS, and whom to trust
description:
  - Returns the present certificate when it is good. It is good when the cluster's authority signed this key for these
    names and it does not end soon.
  - Otherwise signs a new one with the authority's private key, which is made at its first use (C(tls_ca) in
    O(directory)) and never leaves the provisioning host.
  - In check mode nothing is written; a missing authority is made up for that one call.
options:
  _terms:
    description: Public keys of type ecdsa, one line of OpenSSH each; in check mode one may be empty.
    required: true
    type: list
    elements: str
  current:
    description: The present certificate as PEM; empty when there is none.
    type: str
    default: ''
  names:
    description: Names and addresses of the host; the first one is its common name.
    type: list
    elements: str
    required: true
  days:
    description: For how many days a new certificate is valid.
    type: int
    default: 365
  renew_days:
    description: How many days before its end a certificate is renewed.
    type: int
    default: 90
  cluster:
    description: What the authority's name speaks of.
    type: str
    default: cluster
  directory:
    description: Where the secrets are kept; by default the value of the variable C(cluster_secrets_dir).
    type: str
"""

EXAMPLES = r"""
signed: "{{ query('busbar.cluster.tls_certificate', public_key, current=present, names=['gpu1']) | first }}"
"""

RETURN = r"""
_raw:
  description:
    - For each term C(certificate) and C(trusted), both PEM, and C(not_after), its end in seconds since 1970, with
      C(trusted_not_after), that of the first authority in C(trusted) that ends.
  type: list
  elements: dict
"""

import time
from typing import Any

from ..plugin_utils.access.tls_certificate import end_of, first_end, made_up_key, renewal_reason, sign_host
from ..plugin_utils.border import lookup_border
from ..plugin_utils.secrets_lookup import SecretsLookup
from ..plugin_utils.tls_authority import (
    signing_authority,
    trusted_certificates,
)


class LookupModule(SecretsLookup):
    """The lookup `busbar.cluster.tls_certificate`."""

    @lookup_border
    def run(
        self, terms: list[str], variables: dict[str, Any] | None = None, **kwargs: object
    ) -> list[dict[str, str | int]]:
        """Return certificate, trust and end for each public key."""
        directory, create = self.open_secrets(variables, kwargs)
        now = int(time.time())
        authority = signing_authority(directory, self.get_option("cluster"), now, create=create)
        trusted = trusted_certificates(directory, authority)
        keys = [term if create else term or made_up_key() for term in terms]
        certificates = [self._certificate(key, authority, now) for key in keys]
        told: dict[str, str | int] = {"trusted": trusted, "trusted_not_after": first_end(trusted)}
        return [{"certificate": each, "not_after": end_of(each), **told} for each in certificates]

    def _certificate(self, public_key: str, authority: str, now: int) -> str:
        """Return the present certificate when it is good, else a new one."""
        names, days, current = self.get_option("names"), self.get_option("days"), str(self.get_option("current"))
        renew_days = self.get_option("renew_days")
        if not renewal_reason(current, public_key, authority, names=names, now=now, days=days, renew_days=renew_days):
            return current
        return sign_host(public_key, authority, names=names, now=now, days=days)
