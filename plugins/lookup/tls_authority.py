"""Lookup of the authority that is to sign the cluster's TLS certificates, made at its first use."""

from __future__ import annotations

DOCUMENTATION = r"""
name: tls_authority
author: busbar contributors
short_description: The authority for TLS that comes after the present one
description:
  - Makes the next authority on the provisioning host when there is none, and returns its certificate.
  - Certificates are signed by the present one until the file C(tls_ca_next) takes the place of C(tls_ca); from then on
    all hosts have to trust both.
options:
  _terms:
    description: Not used.
    type: list
    elements: str
  cluster:
    description: Name of the cluster, in that of the authority.
    type: str
    required: true
  directory:
    description: Where the secrets are kept; by default the value of the variable C(cluster_secrets_dir).
    type: str
"""

EXAMPLES = r"""
next: "{{ query('busbar.cluster.tls_authority', cluster=cluster_name) | first }}"
"""

RETURN = r"""
_raw:
  description: The certificate, as PEM.
  type: list
  elements: str
"""

import time
from typing import Any

from ..plugin_utils.access.tls_certificate import authority_certificate
from ..plugin_utils.border import lookup_border
from ..plugin_utils.secrets_lookup import SecretsLookup
from ..plugin_utils.tls_authority import NEXT, signing_authority


class LookupModule(SecretsLookup):
    """The lookup `busbar.cluster.tls_authority`."""

    @lookup_border
    def run(self, terms: list[str], variables: dict[str, Any] | None = None, **kwargs: object) -> list[str]:
        """Return the certificate; `terms` say nothing."""
        del terms
        directory, create = self.open_secrets(variables, kwargs)
        made = signing_authority(directory, self.get_option("cluster"), int(time.time()), create=create, name=NEXT)
        return [authority_certificate(made)]
