"""Filter that gives the line of slurm.conf which drains new nodes."""

from __future__ import annotations

DOCUMENTATION = r"""
name: slurm_gate
author: busbar contributors
short_description: Line of slurm.conf that drains new nodes
description:
  - Compares the nodes of the configuration that is there with those of the one that is to come.
  - Nodes that are new to the cluster are drained by a line C(DownNodes), before they can register.
options:
  _input:
    description: The slurm.conf that is there; empty for none, and then nobody is drained.
    type: str
    required: true
  nodes:
    description: The nodes of the new slurm.conf.
    type: list
    elements: str
    required: true
"""

EXAMPLES = r"""
lines: "{{ 'NodeName=gpu1 CPUs=4' | busbar.cluster.slurm_gate(['gpu1', 'gpu2']) }}"
"""

RETURN = r"""
_value:
  description: The line, or nothing when no node is new.
  type: list
  elements: str
"""

from ..plugin_utils.border import Filters, border
from ..plugin_utils.slurm.gate import gate_lines


class FilterModule:
    """The filter `busbar.cluster.slurm_gate`."""

    def filters(self) -> Filters:
        """Return the filter by its name."""
        return {"slurm_gate": border(gate_lines)}
