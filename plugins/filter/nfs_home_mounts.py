"""Filter that tells on which NFS mounts homes lie."""

from __future__ import annotations

DOCUMENTATION = r"""
name: nfs_home_mounts
author: busbar contributors
short_description: NFS mounts that hold homes
description: NFS mounts that hold homes, all of them or some.
options:
  _input:
    description: Mounts as C(storage_mounts_entries) has them.
    type: list
    elements: dict
    required: true
  base:
    description: Directory of the homes.
    type: str
    required: true
"""

EXAMPLES = r"""
homes: "{{ storage_mounts_entries | busbar.cluster.nfs_home_mounts('/shared/home') }}"
"""

RETURN = r"""
_value:
  description: Their paths.
  type: list
  elements: str
"""

from ..module_utils.storage.plan import nfs_home_mounts
from ..plugin_utils.border import Filters, border


class FilterModule:
    """The filter `busbar.cluster.nfs_home_mounts`."""

    def filters(self) -> Filters:
        """Return the filter by its name."""
        return {"nfs_home_mounts": border(nfs_home_mounts)}
