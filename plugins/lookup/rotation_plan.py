"""Lookup that plans the rotation of the cluster's secrets."""

from __future__ import annotations

DOCUMENTATION = r"""
name: rotation_plan
author: busbar contributors (!UNKNOWN)
short_description: Plan the rotation of secrets
description: Checks the selected secrets against the site's secrets, their files and the reachable hosts.
options:
  _terms:
    description: Selected secrets, as a list or separated by commas.
    type: list
    elements: raw
    required: true
  known:
    description:
      - For each name, C(secret) (file name), C(used) (whether the site uses it), C(unused) (message if not), C(hosts)
        (hosts with the secret or a derived value), C(pause) (interrupted services), C(option) (variable that overrides
        the file, if any) and C(rolling) (whether hosts may be prepared in several runs).
    type: dict
    required: true
  reached:
    description: Reachable hosts of this run.
    type: list
    elements: str
    required: true
  directory:
    description: Directory of the secrets. Defaults to the variable C(cluster_secrets_dir).
    type: str
"""

EXAMPLES = r"""
plan: "{{ query('busbar.cluster.rotation_plan', ['munge'], known=secrets, reached=ansible_play_hosts) | first }}"
"""

RETURN = r"""
_raw:
  description: One plan, with C(problems), C(hosts) by name of the replaced secret, and C(lines).
  type: list
  elements: dict
"""

from typing import Any

from ..plugin_utils.access.rotation import rotation_plan
from ..plugin_utils.ansible_errors import lookup_border
from ..plugin_utils.secrets_lookup import SecretsLookup, is_taken


class LookupModule(SecretsLookup):
    """The lookup `busbar.cluster.rotation_plan`."""

    @lookup_border
    def run(self, terms: list[Any], variables: dict[str, Any] | None = None, **kwargs: object) -> list[dict[str, Any]]:
        """Return the rotation plan as the only item."""
        directory, _ = self.open_secrets(variables, kwargs)
        known = self.get_option("known")
        files = {path.name for path in directory.iterdir()} if directory.is_dir() else set()
        given = {
            each["option"]
            for each in known.values()
            if "option" in each and not is_taken(each["secret"], each["option"], variables or {})
        }
        (chosen,) = terms
        return [rotation_plan(chosen, known, self.get_option("reached"), files, given)]
