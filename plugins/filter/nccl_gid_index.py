"""Filter that tells which GID NCCL is to take."""

from __future__ import annotations

DOCUMENTATION = r"""
name: nccl_gid_index
author: busbar contributors
short_description: Which GID NCCL takes on RoCE
description: The index for C(NCCL_IB_GID_INDEX), the same on all ports of the fabric; none on InfiniBand.
options:
  _input:
    description: V(auto), a number, or empty for none.
    type: str
    required: true
  ports:
    description: RDMA ports, as M(busbar.cluster.rdma_info) returns them.
    type: list
    elements: dict
    required: true
"""

EXAMPLES = r"""
- name: Show the index
  ansible.builtin.debug:
    msg: "{{ 'auto' | busbar.cluster.nccl_gid_index(found.rdma.ports) }}"
"""

RETURN = r"""
_value:
  description: C(index), empty for none, and C(note), why there is none.
  type: dict
"""

from ..module_utils.nvidia.rdma_gid import nccl_gid_index
from ..plugin_utils.border import Filters, border


class FilterModule:
    """The filter `busbar.cluster.nccl_gid_index`."""

    def filters(self) -> Filters:
        """Return the filter by its name."""
        return {"nccl_gid_index": border(nccl_gid_index, hint="rdma_nccl_gid_index")}
