# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""Lookup of all hardware profiles."""

from __future__ import annotations

DOCUMENTATION = r"""
name: hardware_catalogue
author: busbar contributors
short_description: All hardware profiles by name
description:
  - Returns the profiles that come with the collection, with the site's
    C(hardware_profiles_extra) merged over them.
  - For what looks at the hosts of the whole cluster at once. For one host there is P(busbar.cluster.hardware#lookup),
    which reads one profile.
options:
  _terms:
    description: Not used.
    type: list
    elements: str
  check:
    description: Whether an entry of the site that is no valid profile is an error, or is left to the caller.
    type: bool
    default: true
seealso:
  - plugin: busbar.cluster.hardware
    plugin_type: lookup
"""

EXAMPLES = r"""
- name: Show the names of all known hardware
  ansible.builtin.debug:
    msg: "{{ lookup('busbar.cluster.hardware_catalogue').keys() | join(', ') }}"
"""

RETURN = r"""
_raw:
  description: The profiles by name.
  type: list
  elements: dict
"""

from typing import Any

from ansible.errors import AnsibleError
from ansible.plugins.lookup import LookupBase

from ..plugin_utils.border import lookup_border
from ..plugin_utils.engine.catalogue.profiles import known_profiles


class LookupModule(LookupBase):  # type: ignore[misc]  # Ansible has no types
    """The lookup `busbar.cluster.hardware_catalogue`."""

    @lookup_border
    def run(self, terms: list[Any], variables: dict[str, Any] | None = None, **kwargs: object) -> list[dict[str, Any]]:
        """Return the profiles; `terms` say nothing.

        Raises:
            AnsibleLookupError: an entry of the site is wrong.
        """
        del terms
        known = variables or {}
        self.set_options(var_options=known, direct=kwargs)
        check = self.get_option("check")
        try:
            return [known_profiles(self._templar.template, known, check=check)]
        except AnsibleError:
            if check:
                raise
            return [known_profiles(lambda _value: None, {}, check=False)]
