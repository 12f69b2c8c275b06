"""Filter over the pure function node_service."""

from __future__ import annotations

DOCUMENTATION = r"""
name: slurm_node_service
author: busbar contributors
short_description: How Slurm has a node, and whose drain it is
description: How Slurm has a node, and whose drain it is.
options:
  _input:
    description: Output of C(sinfo -h -N -o '%N|%T|%E').
    type: str
    required: true
  node:
    description: Name of the node.
    type: str
    required: true
"""

EXAMPLES = r"""
service: "{{ shown.stdout | busbar.cluster.slurm_node_service(inventory_hostname) }}"
"""

RETURN = r"""
_value:
  description:
    - C(known) to Slurm; C(drain) when it is in service and so has to be drained; C(answers); C(state); C(reason).
    - C(ours) when it is to be resumed in the end, which a node is not that somebody else took out of service.
  type: dict
"""

from ..module_utils.slurm.driver_drain import NodeService, node_service
from ..plugin_utils.border import Filters, border


def service(text: str, node: str) -> NodeService:
    """Return how Slurm has the node."""
    return node_service(node, text)


class FilterModule:
    """The filter `busbar.cluster.slurm_node_service`."""

    def filters(self) -> Filters:
        """Return the filter by its name."""
        return {"slurm_node_service": border(service)}
