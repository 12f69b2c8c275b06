"""Filter that says which packages of CUDA a host gets."""

from __future__ import annotations

DOCUMENTATION = r"""
name: cuda_plan
author: busbar contributors
short_description: Which packages of CUDA a host gets
description: Which packages of CUDA a host gets.
positional: settings, host
options:
  _input:
    description: The C(gpu) of the host's hardware profile.
    type: dict
    required: true
  settings:
    description: The options of the role C(cuda) without its name, C(distribution), and its names of packages.
    type: dict
    required: true
  host:
    description: The host's name, for messages.
    type: str
    required: true
"""

EXAMPLES = r"""
plan: "{{ lookup('busbar.cluster.hardware', hardware).gpu | busbar.cluster.cuda_plan(settings, inventory_hostname) }}"
"""

RETURN = r"""
_value:
  description:
    - C(problems) is a list as the filter C(problem_report) takes it; when it is not empty nothing else counts.
    - C(toolkits), C(default), C(packages), C(absent), C(pins) and C(modulefiles) say what to do.
  type: dict
"""

from ..module_utils.nvidia.cuda import cuda_plan
from ..plugin_utils.border import Filters, border


class FilterModule:
    """The filter `busbar.cluster.cuda_plan`."""

    def filters(self) -> Filters:
        """Return the filter by its name."""
        return {"cuda_plan": border(cuda_plan)}
