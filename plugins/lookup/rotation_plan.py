"""Lookup that plans which secrets of the cluster are replaced."""

from __future__ import annotations

DOCUMENTATION = r"""
name: rotation_plan
author: busbar contributors
short_description: Which secrets are replaced, and what speaks against it
description: Compares the secrets that are chosen with those of the site, their files and the hosts that answer.
options:
  _terms:
    description: What was chosen, as one list or one text with commas.
    type: list
    elements: raw
    required: true
  known:
    description:
      - For each name C(secret), the name of its file; C(used), whether the site has it, and C(unused), what is said
        if not; C(hosts), who has it or something made from it; C(pause), what stands still; C(option), the variable
        that takes it, if there is one; and C(rolling), whether hosts may be prepared in several runs.
    type: dict
    required: true
  reached:
    description: Hosts that are in this run and answer.
    type: list
    elements: str
    required: true
  directory:
    description: Where the secrets are kept; by default the value of the variable C(cluster_secrets_dir).
    type: str
"""

EXAMPLES = r"""
plan: "{{ query('busbar.cluster.rotation_plan', ['munge'], known=secrets, reached=ansible_play_hosts) | first }}"
"""

RETURN = r"""
_raw:
  description: One plan, with C(problems), C(hosts) by name of what is replaced, and C(lines).
  type: list
  elements: dict
"""

from typing import Any

from ..plugin_utils.access.rotation import rotation_plan
from ..plugin_utils.border import lookup_border
from ..plugin_utils.secrets_lookup import SecretsLookup, is_taken


class LookupModule(SecretsLookup):
    """The lookup `busbar.cluster.rotation_plan`."""

    @lookup_border
    def run(self, terms: list[Any], variables: dict[str, Any] | None = None, **kwargs: object) -> list[dict[str, Any]]:
        """Return the plan."""
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
