"""Filter over the pure function of the same name."""

from __future__ import annotations

DOCUMENTATION = r"""
name: module_file_problems
author: busbar contributors
short_description: What is wrong with declared Lmod modules
description: What is wrong with declared Lmod modules.
options:
  _input:
    description: Modules as C(lmod_modules) has them.
    type: list
    elements: dict
    required: true
  host:
    description: Name of the host that they are declared for.
    type: str
    required: true
  key:
    description: Name of the variable that declares them.
    type: str
    default: lmod_modules
"""

EXAMPLES = r"""
wrong: "{{ lmod_modules | busbar.cluster.module_file_problems(inventory_hostname) }}"
"""

RETURN = r"""
_value:
  description: Problems as the filter C(problem_report) takes them.
  type: list
  elements: dict
"""

from ..module_utils.containers.module_files import module_file_problems
from ..plugin_utils.border import Filters, border


class FilterModule:
    """The filter `busbar.cluster.module_file_problems`."""

    def filters(self) -> Filters:
        """Return the filter by its name."""
        return {"module_file_problems": border(module_file_problems)}
