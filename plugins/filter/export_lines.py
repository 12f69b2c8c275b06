"""Filter over the pure functions that write exports."""

from __future__ import annotations

DOCUMENTATION = r"""
name: export_lines
author: busbar contributors
short_description: Exports as the text of a file in /etc/exports.d
description: Exports as the text of a file in /etc/exports.d.
options:
  _input:
    description: Items of C(nfs_server_exports).
    type: list
    elements: dict
    required: true
  clients:
    description: Who may mount what an export without clients of its own offers.
    type: list
    elements: str
    required: true
  options:
    description: Options that the options of each export are merged over.
    type: list
    elements: str
    required: true
"""

EXAMPLES = r"""
text: "{{ [{'path': '/shared'}] | busbar.cluster.export_lines(['10.0.0.0/24'], ['rw', 'sync']) }}"
"""

RETURN = r"""
_value:
  description: The lines, one client each.
  type: str
"""

from ..module_utils.storage.nfs_exports import exports_file
from ..plugin_utils.border import Filters, border


class FilterModule:
    """The filter `busbar.cluster.export_lines`."""

    def filters(self) -> Filters:
        """Return the filter by its name."""
        return {"export_lines": border(exports_file, hint="each item of nfs_server_exports needs a path")}
