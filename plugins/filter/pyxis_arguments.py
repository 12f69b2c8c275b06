"""Filters over the pure functions of the same names."""

from __future__ import annotations

DOCUMENTATION = r"""
name: pyxis_arguments
author: busbar contributors
short_description: The arguments with which Slurm loads Pyxis
description: Writes truth values as V(1) and V(0), since Pyxis does not take V(True).
options:
  _input:
    description: Arguments by name.
    type: dict
    required: true
"""

EXAMPLES = r"""
arguments: "{{ {'sbatch_support': true} | busbar.cluster.pyxis_arguments }}"
"""

RETURN = r"""
_value:
  description: Words of the line in plugstack.conf, such as V(sbatch_support=1).
  type: list
  elements: str
"""

from ..module_utils.containers.pyxis import pyxis_arguments
from ..plugin_utils.border import Filters, border


class FilterModule:
    """The filter `busbar.cluster.pyxis_arguments`."""

    def filters(self) -> Filters:
        """Return the filter by its name."""
        return {"pyxis_arguments": border(pyxis_arguments)}
