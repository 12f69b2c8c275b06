"""Filter over the pure function of the same name."""

from __future__ import annotations

DOCUMENTATION = r"""
name: nfs_entries
author: busbar contributors
short_description: NFS mounts with all their options
description: NFS mounts with all their options.
options:
  _input:
    description: Items of C(nfs_client_mounts).
    type: list
    elements: dict
    required: true
  options:
    description:
      - C(version), C(hard), C(nconnect), C(rsize), C(wsize), C(automount). A mount's own options overrule them.
    type: dict
    required: true
  extra:
    description: Further options of all mounts.
    type: list
    elements: str
    default: []
"""

EXAMPLES = r"""
entries: "{{ nfs_client_mounts | busbar.cluster.nfs_entries(options, ['nosuid']) }}"
"""

RETURN = r"""
_value:
  description: The mounts, as C(storage_mounts_entries) has them.
  type: list
  elements: dict
"""

from ..plugin_utils.border import Filters, border
from ..plugin_utils.storage.plan import nfs_entries


class FilterModule:
    """The filter `busbar.cluster.nfs_entries`."""

    def filters(self) -> Filters:
        """Return the filter by its name."""
        return {"nfs_entries": border(nfs_entries, hint="each mount needs source and path")}
