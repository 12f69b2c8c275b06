"""Filter over the pure function of the same name."""

from __future__ import annotations

DOCUMENTATION = r"""
name: hosts_block
author: busbar contributors
short_description: The managed part of /etc/hosts
description: One line per host that has an address, and one per extra entry.
options:
  _input:
    description: Result of P(busbar.cluster.cluster_entries#filter).
    type: list
    elements: dict
    required: true
  extra:
    description: Further entries, each with C(address) and C(names).
    type: list
    elements: dict
    default: []
"""

EXAMPLES = r"""
block: "{{ entries | busbar.cluster.hosts_block(hosts_extra) }}"
"""

RETURN = r"""
_value:
  description: Lines between two markers.
  type: str
"""

from ..module_utils.storage.hosts_table import hosts_block
from ..plugin_utils.border import Filters, border


class FilterModule:
    """The filter `busbar.cluster.hosts_block`."""

    def filters(self) -> Filters:
        """Return the filter by its name."""
        return {"hosts_block": border(hosts_block)}
