"""Filter over the pure function of the same name."""

from __future__ import annotations

DOCUMENTATION = r"""
name: hosts_file
author: busbar contributors
short_description: /etc/hosts with the managed block
description:
  - Replaces the block, or adds it at the end.
  - Takes the names in it out of all other lines, and removes the line of 127.0.1.1.
options:
  _input:
    description: The present text.
    type: str
    required: true
  block:
    description: Result of P(busbar.cluster.hosts_block#filter).
    type: str
    required: true
"""

EXAMPLES = r"""
text: "{{ lookup('ansible.builtin.file', '/etc/hosts') | busbar.cluster.hosts_file(block) }}"
"""

RETURN = r"""
_value:
  description: The new text.
  type: str
"""

from ..module_utils.storage.hosts_table import hosts_file
from ..plugin_utils.border import Filters, border


class FilterModule:
    """The filter `busbar.cluster.hosts_file`."""

    def filters(self) -> Filters:
        """Return the filter by its name."""
        return {"hosts_file": border(hosts_file)}
