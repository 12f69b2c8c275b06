"""Filter that tells of floors that are too low to show anything."""

from __future__ import annotations

DOCUMENTATION = r"""
name: hardware_warnings
author: busbar contributors
short_description: Floors of hardware profiles that would let half the speed pass
description: Floors of hardware profiles that would let half the speed pass.
options:
  _input:
    description: The known hardware by name, without faults.
    type: dict
    required: true
"""

EXAMPLES = r"""
notes: "{{ lookup('busbar.cluster.hardware_catalogue') | busbar.cluster.hardware_warnings }}"
"""

RETURN = r"""
_value:
  description: One line for each floor that is under half of the best known figure.
  type: list
  elements: str
"""

from ..module_utils.catalogue.check import hardware_warnings
from ..plugin_utils.border import Filters, border


class FilterModule:
    """The filter `busbar.cluster.hardware_warnings`."""

    def filters(self) -> Filters:
        """Return the filter by its name."""
        return {"hardware_warnings": border(hardware_warnings)}
