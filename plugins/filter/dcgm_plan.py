"""Filter that says which packages of DCGM a host gets."""

from __future__ import annotations

DOCUMENTATION = r"""
name: dcgm_plan
author: busbar contributors
short_description: Which packages of DCGM a host gets
description: Which packages of DCGM a host gets.
positional: settings, host
options:
  _input:
    description: The C(gpu) of the host's hardware profile.
    type: dict
    required: true
  settings:
    description: >-
      The options of the role C(dcgm) without its name, C(driver), C(libraries) and C(loaded) as the host says,
      C(branch) as the site declares, and C(planned), whether the run changes nothing.
    type: dict
    required: true
  host:
    description: The host's name, for messages.
    type: str
    required: true
"""

EXAMPLES = r"""
plan: "{{ lookup('busbar.cluster.hardware', hardware).gpu | busbar.cluster.dcgm_plan(settings, inventory_hostname) }}"
"""

RETURN = r"""
_value:
  description: C(problems), C(packages), C(absent), C(pins), and C(waits), why nothing can be planned yet.
  type: dict
"""

from ..module_utils.nvidia.dcgm import dcgm_plan
from ..plugin_utils.border import Filters, border


class FilterModule:
    """The filter `busbar.cluster.dcgm_plan`."""

    def filters(self) -> Filters:
        """Return the filter by its name."""
        return {"dcgm_plan": border(dcgm_plan)}
