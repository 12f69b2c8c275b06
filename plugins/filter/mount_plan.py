"""Filter over the pure function of the same name."""

from __future__ import annotations

DOCUMENTATION = r"""
name: mount_plan
author: busbar contributors
short_description: Mounts as fstab and systemd want them
description: Mounts as fstab and systemd want them.
options:
  _input:
    description: Items of C(storage_mounts_entries).
    type: list
    elements: dict
    required: true
  wait_s:
    description: For how many seconds a host that boots waits for the servers.
    type: int
    required: true
"""

EXAMPLES = r"""
plan: "{{ storage_mounts_entries | busbar.cluster.mount_plan(300) }}"
"""

RETURN = r"""
_value:
  description: C(path), C(src), C(fstype), C(options) and C(unit) of each mount, outer ones first.
  type: list
  elements: dict
"""

from ..module_utils.storage.plan import mount_plan
from ..plugin_utils.border import Filters, border


class FilterModule:
    """The filter `busbar.cluster.mount_plan`."""

    def filters(self) -> Filters:
        """Return the filter by its name."""
        return {"mount_plan": border(mount_plan, hint="storage_mounts_entries: each needs type, source and path")}
