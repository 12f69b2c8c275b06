"""Filter that says how a node's exporter is started."""

from __future__ import annotations

DOCUMENTATION = r"""
name: node_exporter_plan
author: busbar contributors
short_description: How a node's exporter is started
description: How a node's exporter is started.
positional: host
options:
  _input:
    description: The options of the role C(node_exporter) without its name.
    type: dict
    required: true
  host:
    description: The host's name, for messages.
    type: str
    required: true
"""

EXAMPLES = r"""
plan: "{{ settings | busbar.cluster.node_exporter_plan(inventory_hostname) }}"
"""

RETURN = r"""
_value:
  description: C(problems), C(arguments) and C(facts), the text about the node.
  type: dict
"""

from ..module_utils.monitoring.node_exporter_plan import node_exporter_plan
from ..plugin_utils.border import Filters, border


class FilterModule:
    """The filter `busbar.cluster.node_exporter_plan`."""

    def filters(self) -> Filters:
        """Return the filter by its name."""
        return {"node_exporter_plan": border(node_exporter_plan)}
