"""Filter that generates Lmod module files."""

from __future__ import annotations

DOCUMENTATION = r"""
name: module_files
author: busbar contributors (!UNKNOWN)
short_description: Generate Lmod module files
description:
  - Generates a Lua file for each declared module, for M(busbar.cluster.templates).
options:
  _input:
    description: Items of C(lmod_modules).
    type: list
    elements: dict
    required: true
  path:
    description: Root directory of the module files.
    type: str
    required: true
  header:
    description: First line of each file, without a comment sign.
    type: str
    default: ""
"""

EXAMPLES = r"""
files: "{{ lmod_modules | busbar.cluster.module_files('/shared/modules', 'Ansible managed') }}"
"""

RETURN = r"""
_value:
  description: C(path), C(content) and C(state) of each file.
  type: list
  elements: dict
"""

from ..plugin_utils.ansible_errors import Filters, border
from ..plugin_utils.containers.module_files import module_files


class FilterModule:
    """The filter `busbar.cluster.module_files`."""

    def filters(self) -> Filters:
        """Return the filter by its name."""
        return {"module_files": border(module_files)}
