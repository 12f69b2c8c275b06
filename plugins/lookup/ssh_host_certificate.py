"""Lookup that signs a host's public key if its certificate needs renewal."""

from __future__ import annotations

DOCUMENTATION = r"""
name: ssh_host_certificate
author: busbar contributors (!UNKNOWN)
short_description: Certificate for the public SSH key of a host
description:
  - Returns the current certificate if it is valid for this key and these principals, signed by the cluster's authority,
    does not expire within O(renew_days), and does not expire later than a new one.
  - Otherwise signs a new one with the private key of the certificate authority on the provisioning host.
options:
  _terms:
    description: Public keys of type ed25519, one line each.
    required: true
    type: list
    elements: str
  current:
    description: The current certificate, or empty.
    type: str
    default: ''
  identity:
    description: Key ID of the certificate, which sshd logs.
    type: str
    required: true
  principals:
    description: Names and addresses of the host.
    type: list
    elements: str
    required: true
  days:
    description: Validity of a new certificate in days.
    type: int
    default: 90
  renew_days:
    description: Days before expiry at which a certificate is renewed.
    type: int
    default: 30
  directory:
    description: Directory of the secrets. Defaults to the variable C(cluster_secrets_dir).
    type: str
"""

EXAMPLES = r"""
certificate: >-
  {{ lookup('busbar.cluster.ssh_host_certificate', public_key, current=present, identity='gpu1',
            principals=['gpu1', '10.0.0.11']).text }}
"""

RETURN = r"""
_raw:
  description: One certificate per term, with C(text), a single line, and C(end), its expiry in seconds since 1970.
  type: list
  elements: dict
"""

import time
from typing import Any

from ..plugin_utils.access.ssh_certificate import certificate_end, renewal_reason, sign_host_key
from ..plugin_utils.ansible_errors import lookup_border
from ..plugin_utils.secrets_lookup import SecretsLookup
from ..plugin_utils.ssh_authority import signing_key


class LookupModule(SecretsLookup):
    """The lookup `busbar.cluster.ssh_host_certificate`."""

    @lookup_border
    def run(self, terms: list[str], variables: dict[str, Any] | None = None, **kwargs: object) -> list[dict[str, Any]]:
        """Return one certificate per public key."""
        directory, create = self.open_secrets(variables, kwargs)
        authority = signing_key(directory, create=create)
        texts = [self._certificate(term, authority) for term in terms]
        return [{"text": text, "end": certificate_end(text)} for text in texts]

    def _certificate(self, public_key: str, authority: str) -> str:
        """Return the present certificate if it does not need renewal, else a new one."""
        now, principals = int(time.time()), self.get_option("principals")
        current, days = str(self.get_option("current")), self.get_option("days")
        lasts = {"now": now, "renew_days": self.get_option("renew_days"), "days": days}
        if not renewal_reason(current, public_key, authority, principals=principals, **lasts):
            return current.strip()
        identity = self.get_option("identity")
        return sign_host_key(public_key, authority, identity=identity, principals=principals, now=now, days=days)
