"""Filter that tells login nodes of the CUDA toolkits of the compute nodes."""

from __future__ import annotations

DOCUMENTATION = r"""
name: cuda_login_plan
author: busbar contributors
short_description: Module files of CUDA for login nodes
description: The module files by which a login node, which has no toolkit, knows those of the compute nodes.
options:
  _input:
    description: The declared versions of the toolkits; none for the one of C(/usr/local/cuda).
    type: list
    elements: str
    required: true
  default:
    description: The declared default; empty for the newest.
    type: str
    required: true
  path:
    description: Where module files lie; empty for none.
    type: str
    required: true
"""

EXAMPLES = r"""
- name: Show the module files
  ansible.builtin.debug:
    msg: "{{ ['12.9', '13.1'] | busbar.cluster.cuda_login_plan('', '/etc/lmod/modules') }}"
"""

RETURN = r"""
_value:
  description: C(default), its name, and C(modulefiles), C(path) and C(vars) of each.
  type: dict
"""

from ..module_utils.nvidia.cuda import login_plan
from ..plugin_utils.border import Filters, border


class FilterModule:
    """The filter `busbar.cluster.cuda_login_plan`."""

    def filters(self) -> Filters:
        """Return the filter by its name."""
        return {"cuda_login_plan": border(login_plan)}
