"""Filter that generates hardware profiles or a Slurm topology from the nodes' answers."""

from __future__ import annotations

DOCUMENTATION = r"""
name: node_description
author: busbar contributors (!UNKNOWN)
short_description: Hardware profiles or topology of machines, as YAML
description:
  - Generates the hardware profiles of machines (C(hardware_profiles_extra)) or their topology (C(slurm_topology)).
positional: hostvars, names
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
      Names of registered variables. C(hardware) and C(nvlink) contain results of M(busbar.cluster.node_info) with
      O(busbar.cluster.node_info#module:devices), C(slurmd) that of C(slurmd -C), C(lldp) that of C(lldpctl -f json0).
    type: dict
    required: true
  source:
    description: Source of the description, which determines its type.
    type: str
    choices: [hardware, lldp, nvlink]
    default: hardware
  catalogue:
    description: Known hardware profiles by name, for V(hardware).
    type: dict
    default: {}
  interfaces:
    description: Shell pattern of the network interfaces to use with V(lldp).
    type: str
    default: "*"
"""

EXAMPLES = r"""
- name: Show the topology
  ansible.builtin.debug:
    msg: "{{ ansible_play_hosts_all
      | busbar.cluster.node_description(hostvars, {'lldp': '__topology_lldp'}, source='lldp') }}"
"""

RETURN = r"""
_value:
  description:
    - C(text), the YAML with comments, empty if no host answered; and C(problem), the reason for a missing topology.
  type: dict
"""

from typing import TYPE_CHECKING, Any

import yaml

from ..plugin_utils.ansible_errors import filter_module
from ..plugin_utils.engine.catalogue.profile_from_machine import describe_machine, description_text, machine_notes
from ..plugin_utils.engine.common.hostlist import fold_hosts
from ..plugin_utils.slurm.lldp_topology import lldp_topology
from ..plugin_utils.slurm.nvlink_topology import nvlink_topology

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    Hostvars = Mapping[str, Mapping[str, Any]]


def node_description(  # noqa: PLR0913, PLR0917 - arguments of a filter
    nodes: Iterable[str],
    hostvars: Hostvars,
    names: Mapping[str, str],
    source: str = "hardware",
    catalogue: Mapping[str, Mapping[str, Any]] | None = None,
    interfaces: str = "*",
) -> dict[str, str]:
    """Return the generated YAML as `text`, or a `problem`."""
    requested = [str(node) for node in nodes]
    if source == "hardware":
        return {"text": _profiles(requested, hostvars, names, catalogue or {}), "problem": ""}
    try:
        found = _topology(requested, hostvars, names[source], source, interfaces)
    except ValueError as exc:
        return {"text": "", "problem": str(exc)}
    comments = "".join(f"# {note}\n" for note in found.pop("notes"))
    return {"text": comments + yaml.safe_dump({"slurm_topology": found}, sort_keys=False), "problem": ""}


def _profiles(
    requested: list[str], hostvars: Hostvars, names: Mapping[str, str], catalogue: Mapping[str, Mapping[str, Any]]
) -> str:
    machines = []
    for host in requested:
        node, slurmd = (hostvars[host].get(names[key]) or {} for key in ("hardware", "slurmd"))
        if node.get("reached"):
            devices = node["devices"]
            notes = machine_notes(devices, str(slurmd.get("stdout") or ""))
            machines.append((host, describe_machine(node["node"], devices), notes))
    return description_text(machines, catalogue)


def _topology(requested: list[str], hostvars: Hostvars, name: str, source: str, interfaces: str) -> dict[str, Any]:
    unknown = [node for node in requested if node not in hostvars]
    if unknown:
        message = f"{fold_hosts(unknown)} is not in the inventory"
        raise ValueError(message)
    answers = {node: hostvars[node].get(name) or {} for node in requested}
    silent = [
        node for node, answer in answers.items() if answer.get("unreachable") or not answer.get("reached", bool(answer))
    ]
    if silent:
        message = f"{fold_hosts(silent)} did not answer"
        raise ValueError(message)
    if source == "lldp":
        return lldp_topology({node: str(answer.get("stdout") or "") for node, answer in answers.items()}, interfaces)
    domains = {node: str(hostvars[node].get("nvlink_domain") or "") for node in requested}
    return nvlink_topology({node: answer["devices"] for node, answer in answers.items()}, domains)


FilterModule = filter_module("node_description", node_description)
