# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""Lookup of the files in which roles declare their listening ports."""

from __future__ import annotations

DOCUMENTATION = r"""
name: port_declarations
author: busbar contributors (!UNKNOWN)
short_description: Files in which the collection's roles declare their ports
description:
  - Each role with services for other hosts has a C(meta/ports.yml), a list of services with C(service), C(when),
    C(protocol), C(ports) and C(from). P(ansible.builtin.template#lookup) renders its expressions for a host.
options:
  _terms:
    description: Not used.
    type: list
    elements: str
"""

EXAMPLES = r"""
- name: Show the roles that declare ports
  ansible.builtin.debug:
    msg: "{{ query('busbar.cluster.port_declarations') }}"
"""

RETURN = r"""
_raw:
  description: For each role, sorted by name, C(role), and C(path) of its file.
  type: list
  elements: dict
"""

from pathlib import Path

from ansible.plugins.lookup import LookupBase

from ..plugin_utils.ansible_errors import lookup_border


class LookupModule(LookupBase):  # type: ignore[misc]  # Ansible has no types
    """The lookup `busbar.cluster.port_declarations`."""

    @lookup_border
    def run(self, terms: list[object], variables: object = None, **kwargs: object) -> list[dict[str, str]]:
        """Return role and path of each file; `terms` are ignored."""
        del terms, variables, kwargs
        roles = Path(__file__).resolve().parents[2] / "roles"
        return [{"role": path.parents[1].name, "path": str(path)} for path in sorted(roles.glob("*/meta/ports.yml"))]
