"""Filter over the pure function of the same name."""

from __future__ import annotations

DOCUMENTATION = r"""
name: nfs_mounts_from_exports
author: busbar contributors
short_description: The mounts that follow from what the first NFS server exports
description: The mounts that follow from what the first NFS server exports.
options:
  _input:
    description: Hosts that export.
    type: list
    elements: str
    required: true
  variables:
    description: The variable C(hostvars); of the first server its address and C(nfs_server_exports) are read.
    type: dict
    required: true
  host:
    description: Name of the client. A server mounts nothing.
    type: str
    required: true
"""

EXAMPLES = r"""
mounts: "{{ groups['nfs_server'] | busbar.cluster.nfs_mounts_from_exports(hostvars, inventory_hostname) }}"
"""

RETURN = r"""
_value:
  description: C(src) and C(path) of each mount.
  type: list
  elements: dict
"""

from ..plugin_utils.border import Filters, border
from ..plugin_utils.storage.plan import nfs_mounts_from_exports


class FilterModule:
    """The filter `busbar.cluster.nfs_mounts_from_exports`."""

    def filters(self) -> Filters:
        """Return the filter by its name."""
        return {
            "nfs_mounts_from_exports": border(
                nfs_mounts_from_exports, hint="each item of nfs_server_exports needs a path"
            )
        }
