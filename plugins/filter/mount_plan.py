"""Filter over the pure function of the same name."""

from __future__ import annotations

DOCUMENTATION = r"""
name: mount_plan
author: busbar contributors
short_description: Mounts as fstab and systemd want them
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

from typing import TYPE_CHECKING, Any

from ansible.errors import AnsibleFilterError

from ..module_utils.storage.plan import mount_plan

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


def plan(entries: Sequence[Mapping[str, Any]], wait_s: int) -> list[dict[str, Any]]:
    """Return the plan.

    Raises:
        AnsibleFilterError: when an entry lacks its type, source or path.
    """
    try:
        return mount_plan(entries, wait_s)
    except (KeyError, TypeError) as exc:
        message = f"mount_plan: {exc!r}"
        raise AnsibleFilterError(message) from exc


class FilterModule:
    """The filter `busbar.cluster.mount_plan`."""

    def filters(self) -> dict[str, Callable[..., object]]:
        """Return the filter by name."""
        return {"mount_plan": plan}
