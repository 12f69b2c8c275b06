"""Filter that names the nodes of Slurm that the inventory does not have."""

from __future__ import annotations

DOCUMENTATION = r"""
name: forgotten_nodes
author: busbar contributors
short_description: Nodes of Slurm that the inventory does not have
description: Nodes that were deleted from the inventory, or renamed there, and that Slurm still has.
options:
  _input:
    description: Compute nodes of the inventory.
    type: list
    elements: str
    required: true
  shown:
    description: Output of C(scontrol --oneliner show nodes).
    type: str
    required: true
"""

EXAMPLES = r"""
forgotten: "{{ groups['slurm_compute'] | busbar.cluster.forgotten_nodes(shown.stdout) }}"
"""

RETURN = r"""
_value:
  description: The nodes.
  type: list
  elements: str
"""

from ..module_utils.slurm.new_nodes import forgotten_nodes
from ..plugin_utils.border import Filters, border


class FilterModule:
    """The filter `busbar.cluster.forgotten_nodes`."""

    def filters(self) -> Filters:
        """Return the filter by its name."""
        return {"forgotten_nodes": border(forgotten_nodes)}
