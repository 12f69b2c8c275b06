"""Filter that tells login nodes of the CUDA toolkits of the compute nodes."""

from __future__ import annotations

DOCUMENTATION = r"""
name: cuda_login_modulefiles
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
  folder:
    description: Where module files lie; empty for none.
    type: str
    required: true
  header:
    description: Comment at the top of each file.
    type: str
    required: true
"""

EXAMPLES = r"""
- name: Show the module files
  ansible.builtin.debug:
    msg: "{{ ['12.9', '13.1'] | busbar.cluster.cuda_login_modulefiles('', '/etc/lmod/modules', '# made') }}"
"""

RETURN = r"""
_value:
  description: Files, as M(busbar.cluster.files) takes them.
  type: list
  elements: dict
"""

from ..module_utils.nvidia.cuda import login_modulefiles
from ..plugin_utils.border import Filters, border


class FilterModule:
    """The filter `busbar.cluster.cuda_login_modulefiles`."""

    def filters(self) -> Filters:
        """Return the filter by its name."""
        return {"cuda_login_modulefiles": border(login_modulefiles)}
