"""Filter that writes hardware profiles of machines."""

from __future__ import annotations

DOCUMENTATION = r"""
name: hardware_description
author: busbar contributors
short_description: Hardware profiles that would fit machines, as YAML
description: Hardware profiles that would fit machines, as YAML.
options:
  _input:
    description: Names of the hosts.
    type: list
    elements: str
    required: true
  hostvars:
    description: Variables of all hosts.
    type: dict
    required: true
  names:
    description: >-
      Names of the variables with the results of M(busbar.cluster.node_info) and C(slurmd -C), as C(node) and C(slurmd).
      A host that did not answer is skipped.
    type: dict
    required: true
  catalogue:
    description: The known hardware by name.
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: Show the profiles
  ansible.builtin.debug:
    msg: "{{ ansible_play_hosts | busbar.cluster.hardware_description(hostvars, names, known) }}"
"""

RETURN = r"""
_value:
  description: The text for C(hardware_profiles_extra); empty when no host answered.
  type: str
"""

from typing import TYPE_CHECKING, Any

from ..plugin_utils.border import Filters, border
from ..plugin_utils.engine.catalogue.describe import describe_machine, description_text, machine_notes

if TYPE_CHECKING:
    from collections.abc import Mapping


def description(
    hosts: list[str],
    hostvars: Mapping[str, Mapping[str, Any]],
    names: Mapping[str, str],
    catalogue: Mapping[str, Mapping[str, Any]],
) -> str:
    """Return the text."""
    machines = []
    for host in hosts:
        node, slurmd = (hostvars[host].get(names[key]) or {} for key in ("node", "slurmd"))
        if node.get("reached"):
            gpus = node["devices"]
            notes = machine_notes(gpus, str(slurmd.get("stdout") or ""))
            machines.append((str(host), describe_machine(node["node"], gpus), notes))
    return description_text(machines, catalogue)


class FilterModule:
    """The filter `busbar.cluster.hardware_description`."""

    def filters(self) -> Filters:
        """Return the filter by its name."""
        return {"hardware_description": border(description)}
