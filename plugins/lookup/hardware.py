# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""Lookup of a host's hardware profile."""

from __future__ import annotations

DOCUMENTATION = r"""
name: hardware
author: busbar contributors (!UNKNOWN)
short_description: The hardware profile of a host, or all hardware profiles
description:
  - Returns the profile with the given name. The site's C(hardware_profiles_extra) overrides the collection's profiles.
  - Returns an empty dictionary for an empty name, for hosts without hardware such as login nodes.
  - Fails if the name is unknown or the site's profile is invalid.
  - Reads only the requested profile. Without a name, returns all profiles by name.
  - Adds C(generation) to the GPU if the profile has none and the model is known.
options:
  _terms:
    description: Names of profiles, usually the variable C(hardware) of the host.
    type: list
    elements: str
  catalogue:
    description: Profiles by name, which replace those of the collection and the site.
    type: dict
  mig:
    description: MIG layout of the host. The GPU then gets C(smi_places), the nvidia-smi index of each GPU number in
      Slurm.
    type: raw
  check:
    description: Whether to fail if a profile of the site is invalid. If false, the caller checks the profiles. Applies
      only without a name.
    type: bool
    default: true
notes:
  - C(plugins/plugin_utils/engine/catalogue/profile.schema.json) describes the keys of a profile.
"""

EXAMPLES = r"""
- name: Show the GPUs of the host
  ansible.builtin.debug:
    msg: "{{ lookup('busbar.cluster.hardware', hardware | default('')).gpu | default('none') }}"

- name: Show the names of all known hardware
  ansible.builtin.debug:
    msg: "{{ lookup('busbar.cluster.hardware').keys() | join(', ') }}"
"""

RETURN = r"""
_raw:
  description: The profile, or all profiles by name.
  type: list
  elements: dict
"""

from typing import Any

from ansible.errors import AnsibleError
from ansible.plugins.lookup import LookupBase

from ..module_utils.nvidia.driver_choice import generation_of_model
from ..plugin_utils.ansible_errors import lookup_border
from ..plugin_utils.engine.catalogue.gres_conf import smi_places
from ..plugin_utils.engine.catalogue.merged_profiles import host_profile, known_profiles


class LookupModule(LookupBase):  # type: ignore[misc]  # Ansible has no types
    """The lookup `busbar.cluster.hardware`."""

    @lookup_border
    def run(self, terms: list[Any], variables: dict[str, Any] | None = None, **kwargs: object) -> list[dict[str, Any]]:
        """Return the profile of each term, or all profiles.

        Raises:
            AnsibleLookupError: if a name is unknown or not a string, or one of the site's profiles is invalid.
        """
        known = variables or {}
        self.set_options(var_options=known, direct=kwargs)
        if not terms:
            return [self._all(known)]
        catalogue = self.get_option("catalogue")
        found = [_with_generation(host_profile(self._templar.template, known, term, catalogue)) for term in terms]
        mig = self.get_option("mig")
        if mig:
            found = [{**each, "gpu": {**each["gpu"], "smi_places": smi_places(each["gpu"], mig)}} for each in found]
        return found

    def _all(self, known: dict[str, Any]) -> dict[str, Any]:
        """Return all profiles by name; only the collection's if the site's are invalid and `check` is false."""
        check = self.get_option("check")
        try:
            return known_profiles(self._templar.template, known, check=check)
        except AnsibleError:
            if check:
                raise
            return known_profiles(lambda _value: None, {}, check=False)


def _with_generation(profile: dict[str, Any]) -> dict[str, Any]:
    """Return the profile with the GPU generation added if the model is known."""
    gpu = profile.get("gpu") or {}
    generation = gpu.get("generation") or generation_of_model(str(gpu.get("model") or ""))
    return {**profile, "gpu": {**gpu, "generation": generation}} if generation else profile
