"""Filter over the pure function of the same name."""

from __future__ import annotations

DOCUMENTATION = r"""
name: pyxis_problems
author: busbar contributors
short_description: What is wrong with a site's own arguments of Pyxis
description: Names arguments that Pyxis does not know and values that it cannot read; either would fail every job.
options:
  _input:
    description: C(pyxis_options).
    type: dict
    required: true
  host:
    description: Name of the host that they are declared for.
    type: str
    required: true
  key:
    description: Name of the variable that declares them.
    type: str
    default: pyxis_options
"""

EXAMPLES = r"""
wrong: "{{ pyxis_options | busbar.cluster.pyxis_problems(inventory_hostname) }}"
"""

RETURN = r"""
_value:
  description: Problems as the filter C(problem_report) takes them.
  type: list
  elements: dict
"""

from ..module_utils.containers.pyxis import pyxis_problems
from ..plugin_utils.border import Filters, border


class FilterModule:
    """The filter `busbar.cluster.pyxis_problems`."""

    def filters(self) -> Filters:
        """Return the filter by its name."""
        return {"pyxis_problems": border(pyxis_problems)}
