"""Filter that returns the nodes to add to, test in or remove from a running cluster."""

from __future__ import annotations

DOCUMENTATION = r"""
name: node_admission
author: busbar contributors (!UNKNOWN)
short_description: Nodes to admit to, test in, or remove from a running cluster
description: Compares the compute nodes of the inventory with those of Slurm.
options:
  _input:
    description: Compute nodes of the inventory.
    type: list
    elements: str
    required: true
  shown:
    description: Output of C(scontrol --oneliner show nodes), and of the same for the reservation busbar-new.
    type: str
    required: true
  requested:
    description:
      - Requested nodes, as a list or folded. Only these count as new.
      - A node in service is a problem.
    type: raw
    default: ""
  drained:
    description: Nodes that would be drained by now outside of check mode, as a list or folded.
    type: raw
    default: ""
"""

EXAMPLES = r"""
new: "{{ (groups['slurm_compute'] | busbar.cluster.node_admission(shown.stdout)).new }}"
"""

RETURN = r"""
_value:
  description:
    - C(new), nodes to admit in inventory order. Slurm does not know them, or they are in the reservation busbar-new.
    - C(untested), nodes in the reservation busbar-new without a completed validation.
    - C(forgotten), nodes known to Slurm that are not in the inventory.
    - C(problems), for M(busbar.cluster.refuse). With problems C(new) is empty.
  type: dict
"""

from ..plugin_utils.ansible_errors import filter_module
from ..plugin_utils.slurm.new_nodes import node_admission

FilterModule = filter_module("node_admission", node_admission)
