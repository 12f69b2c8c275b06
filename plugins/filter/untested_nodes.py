"""Filter that names the nodes behind the gate that no validation has judged yet."""

from __future__ import annotations

DOCUMENTATION = r"""
name: untested_nodes
author: busbar contributors
short_description: Nodes behind the gate that no validation has judged yet
description: Nodes that were joined and never tested, or whose validation was cut off.
options:
  _input:
    description: Output of C(scontrol --oneliner show nodes), and of the same for the reservation busbar-new.
    type: str
    required: true
"""

EXAMPLES = r"""
untested: "{{ shown.stdout | busbar.cluster.untested_nodes }}"
"""

RETURN = r"""
_value:
  description: The nodes.
  type: list
  elements: str
"""

from ..module_utils.slurm.new_nodes import untested_nodes
from ..plugin_utils.border import Filters, border


class FilterModule:
    """The filter `busbar.cluster.untested_nodes`."""

    def filters(self) -> Filters:
        """Return the filter by its name."""
        return {"untested_nodes": border(untested_nodes)}
