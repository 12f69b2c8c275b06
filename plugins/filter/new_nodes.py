"""Filter that names the nodes that are new to a running cluster."""

from __future__ import annotations

DOCUMENTATION = r"""
name: new_nodes
author: busbar contributors
short_description: Nodes that are new to a running cluster
description: Nodes that a running cluster lacks, or that wait behind its gate.
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
  asked:
    description:
      - Nodes that were asked for, as a list or folded; these and no others.
      - One that is in service is refused.
    type: raw
    default: ""
  drained:
    description: Nodes that would be drained by now, were it not for check mode; as a list or folded.
    type: raw
    default: ""
"""

EXAMPLES = r"""
new: "{{ groups['slurm_compute'] | busbar.cluster.new_nodes(shown.stdout) }}"
"""

RETURN = r"""
_value:
  description: The nodes to be added.
  type: list
  elements: str
"""

from ..module_utils.slurm.new_nodes import new_nodes
from ..plugin_utils.border import Filters, border


class FilterModule:
    """The filter `busbar.cluster.new_nodes`."""

    def filters(self) -> Filters:
        """Return the filter by its name."""
        return {"new_nodes": border(new_nodes)}
