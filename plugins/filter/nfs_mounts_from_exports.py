"""Filter that derives a client's NFS mounts from the exports of the first server."""

from __future__ import annotations

DOCUMENTATION = r"""
name: nfs_mounts_from_exports
author: busbar contributors (!UNKNOWN)
short_description: Mounts for the exports of the first NFS server
description: Derives the mounts of a client from the exports of the first NFS server.
options:
  _input:
    description: NFS servers.
    type: list
    elements: str
    required: true
  variables:
    description: The variable C(hostvars). The address and C(nfs_server_exports) of the first server are read.
    type: dict
    required: true
  host:
    description: Name of the client. The result is empty for a server.
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

from ..plugin_utils.ansible_errors import filter_module
from ..plugin_utils.storage.plan import nfs_mounts_from_exports

FilterModule = filter_module(
    "nfs_mounts_from_exports", nfs_mounts_from_exports, hint="nfs_server_exports: each entry needs a path"
)
