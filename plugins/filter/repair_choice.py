"""Filter that chooses how a node is repaired."""

from __future__ import annotations

DOCUMENTATION = r"""
name: repair_choice
author: busbar contributors
short_description: How a node is repaired
description: Whether a node gets a reset of its GPUs, a reboot, or none, by why the health check drained it.
options:
  _input:
    description: What the filter repair_plan says of the node.
    type: dict
    required: true
  note:
    description: The note of the health check on the node, whose first line is the severity.
    type: str
    required: true
  look:
    description: What the health check finds now, as JSON.
    type: str
    required: true
  allowed:
    description: C(none), C(reset) or C(reboot).
    type: str
    required: true
  limit:
    description: How many repairs a node gets in seven days.
    type: int
    required: true
"""

EXAMPLES = r"""
choice: "{{ plan.nodes[inventory_hostname] | busbar.cluster.repair_choice(note, look, 'reboot', 2) }}"
"""

RETURN = r"""
_value:
  description: C(do), one of C(reset), C(reboot), C(isolate) and C(skip), and C(why).
  type: dict
"""

from ..module_utils.health.repairs import choose
from ..plugin_utils.border import Filters, border


class FilterModule:
    """The filter `busbar.cluster.repair_choice`."""

    def filters(self) -> Filters:
        """Return the filter by its name."""
        return {"repair_choice": border(choose)}
