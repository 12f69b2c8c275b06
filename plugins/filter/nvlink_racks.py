"""Filter that tells which hosts share an NVLink rack."""

from __future__ import annotations

DOCUMENTATION = r"""
name: nvlink_racks
author: busbar contributors
short_description: Members of each NVLink rack
description: Members of each NVLink rack, as C(nvlink_domain) of each host names it.
options:
  _input:
    description: Hosts of the inventory.
    type: list
    elements: str
    required: true
  variables:
    description: The variable C(hostvars).
    type: dict
    required: true
"""

EXAMPLES = r"""
racks: "{{ groups['slurm_compute'] | busbar.cluster.nvlink_racks(hostvars) }}"
"""

RETURN = r"""
_value:
  description: By the name of a rack its C(hosts) and their C(addresses), in the order of the inventory.
  type: dict
"""

from ..module_utils.nvidia.imex import nvlink_racks
from ..plugin_utils.border import Filters, border


class FilterModule:
    """The filter `busbar.cluster.nvlink_racks`."""

    def filters(self) -> Filters:
        """Return the filter by its name."""
        return {"nvlink_racks": border(nvlink_racks)}
