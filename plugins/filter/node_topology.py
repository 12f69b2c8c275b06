"""Filter that writes slurm_topology from what nodes report."""

from __future__ import annotations

DOCUMENTATION = r"""
name: node_topology
author: busbar contributors
short_description: Slurm's topology from what nodes report, as YAML
description: >-
  Slurm's topology as YAML, from the switches that nodes hear by LLDP or from the NVLink domains of their GPUs.
options:
  _input:
    description: Names of the nodes that were asked for.
    type: list
    elements: str
    required: true
  hostvars:
    description: Variables of all hosts.
    type: dict
    required: true
  name:
    description: >-
      Name of the variable with the result of C(lldpctl -f json0) or of M(busbar.cluster.node_info).
    type: str
    required: true
  source:
    description: What the nodes were asked.
    type: str
    choices: [lldp, nvlink]
    required: true
  interfaces:
    description: A shell pattern for the network interfaces that count with LLDP.
    type: str
    default: "*"
"""

EXAMPLES = r"""
- name: Show the topology
  ansible.builtin.debug:
    msg: "{{ ansible_play_hosts_all | busbar.cluster.node_topology(hostvars, '__topology_lldp', 'lldp') }}"
"""

RETURN = r"""
_value:
  description:
    - C(text) is what to put into C(slurm_topology), with comments; C(problem) is why there is none, in a sentence.
    - One of them is empty.
  type: dict
"""

from typing import TYPE_CHECKING, Any

import yaml

from ..plugin_utils.border import Filters, border
from ..plugin_utils.engine.common.hostlist import fold_hosts
from ..plugin_utils.slurm.lldp_topology import lldp_topology
from ..plugin_utils.slurm.nvlink_topology import nvlink_topology

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


def node_topology(
    nodes: Iterable[str],
    hostvars: Mapping[str, Mapping[str, Any]],
    name: str,
    source: str,
    interfaces: str = "*",
) -> dict[str, str]:
    """Return the text, or the problem."""
    asked = [str(node) for node in nodes]
    try:
        found = _found(asked, hostvars, name, source, interfaces)
    except ValueError as exc:
        return {"text": "", "problem": str(exc)}
    comments = "".join(f"# {note}\n" for note in found.pop("notes"))
    return {"text": comments + yaml.safe_dump({"slurm_topology": found}, sort_keys=False), "problem": ""}


def _found(
    asked: list[str], hostvars: Mapping[str, Mapping[str, Any]], name: str, source: str, interfaces: str
) -> dict[str, Any]:
    unknown = [node for node in asked if node not in hostvars]
    if unknown:
        message = f"{fold_hosts(unknown)} is not in the inventory"
        raise ValueError(message)
    answers = {node: hostvars[node].get(name) or {} for node in asked}
    silent = [
        node for node, answer in answers.items() if answer.get("unreachable") or not answer.get("reached", bool(answer))
    ]
    if silent:
        message = f"{fold_hosts(silent)} did not answer"
        raise ValueError(message)
    if source == "lldp":
        return lldp_topology({node: str(answer.get("stdout") or "") for node, answer in answers.items()}, interfaces)
    domains = {node: str(hostvars[node].get("nvlink_domain") or "") for node in asked}
    return nvlink_topology({node: answer["devices"] for node, answer in answers.items()}, domains)


class FilterModule:
    """The filter `busbar.cluster.node_topology`."""

    def filters(self) -> Filters:
        """Return the filter by its name."""
        return {"node_topology": border(node_topology)}
