"""Filter that names the nodes a running cluster has yet to admit, to test, or to forget."""

from __future__ import annotations

DOCUMENTATION = r"""
name: node_admission
author: busbar contributors
short_description: Which nodes a running cluster has yet to admit, to test, or to forget
description: Compares the compute nodes of the inventory with those that Slurm has.
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
      - Nodes that were asked for, as a list or folded; these and no others are new.
      - One that is in service is refused.
    type: raw
    default: ""
  drained:
    description: Nodes that would be drained by now, were it not for check mode; as a list or folded.
    type: raw
    default: ""
"""

EXAMPLES = r"""
new: "{{ (groups['slurm_compute'] | busbar.cluster.node_admission(shown.stdout)).new }}"
"""

RETURN = r"""
_value:
  description:
    - C(new), nodes to be admitted, that Slurm lacks or that wait behind its gate, in the order of the inventory.
    - C(untested), nodes behind the gate that no validation has judged yet, or whose validation was cut off.
    - C(forgotten), nodes of Slurm that were deleted from the inventory, or renamed there.
  type: dict
"""

from ..plugin_utils.border import Filters, border
from ..plugin_utils.slurm.new_nodes import node_admission


class FilterModule:
    """The filter `busbar.cluster.node_admission`."""

    def filters(self) -> Filters:
        """Return the filter by its name."""
        return {"node_admission": border(node_admission)}
