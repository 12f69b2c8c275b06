"""Filter over the pure function of the same name."""

from __future__ import annotations

DOCUMENTATION = r"""
name: hosts_block
author: busbar contributors
short_description: The managed part of /etc/hosts
description: One line per host that has an address, and one per extra entry.
options:
  _input:
    description: Result of P(busbar.cluster.cluster_entries#filter).
    type: list
    elements: dict
    required: true
  extra:
    description: Further entries, each with C(address) and C(names).
    type: list
    elements: dict
    default: []
"""

EXAMPLES = r"""
block: "{{ entries | busbar.cluster.hosts_block(hosts_extra) }}"
"""

RETURN = r"""
_value:
  description: Lines between two markers.
  type: str
"""

from typing import TYPE_CHECKING, Any

from ansible.errors import AnsibleFilterError

from ..module_utils.storage.hosts_table import hosts_block

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


def block(entries: Sequence[Mapping[str, Any]], extra: Sequence[Mapping[str, Any]] = ()) -> str:
    """Return the managed part of /etc/hosts.

    Raises:
        AnsibleFilterError: when an extra entry has no valid address or no name.
    """
    try:
        return hosts_block(entries, extra)
    except ValueError as exc:
        raise AnsibleFilterError(str(exc)) from exc


class FilterModule:
    """The filter `busbar.cluster.hosts_block`."""

    def filters(self) -> dict[str, Callable[..., object]]:
        """Return the filter by name."""
        return {"hosts_block": block}
