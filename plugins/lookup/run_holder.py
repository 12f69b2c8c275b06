"""Lookup of the run of ansible-playbook that is at work."""

from __future__ import annotations

DOCUMENTATION = r"""
name: run_holder
author: busbar contributors
short_description: Which run of ansible-playbook is at work
description:
  - Without a term, returns this run as a dictionary that can be written into a file.
  - With such dictionaries, returns for each who is at work; an empty text when it is this run, or one that has ended.
  - Whether a run of another host has ended cannot be known; it counts as being at work.
options:
  _terms:
    description: What an earlier run returned.
    type: list
    elements: dict
"""

EXAMPLES = r"""
- name: Show whether another run is at work
  ansible.builtin.debug:
    msg: "{{ lookup('busbar.cluster.run_holder', state.holder) or 'nobody else' }}"
"""

RETURN = r"""
_raw:
  description: This run, or who is at work.
  type: list
  elements: raw
"""

from typing import Any

from ansible.plugins.lookup import LookupBase

from ..plugin_utils.border import lookup_border
from ..plugin_utils.run_holder import holder_problem, own_holder


class LookupModule(LookupBase):  # type: ignore[misc]  # Ansible has no types
    """The lookup `busbar.cluster.run_holder`."""

    @lookup_border
    def run(self, terms: list[Any], variables: dict[str, Any] | None = None, **kwargs: object) -> list[Any]:
        """Return this run, or for each term who is at work."""
        del variables, kwargs
        return [holder_problem(term) for term in terms] or [own_holder()]
