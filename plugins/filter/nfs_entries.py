"""Filter over the pure function of the same name."""

from __future__ import annotations

DOCUMENTATION = r"""
name: nfs_entries
author: busbar contributors
short_description: NFS mounts with all their options
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

from typing import TYPE_CHECKING, Any

from ansible.errors import AnsibleFilterError

from ..module_utils.storage.plan import nfs_entries

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


def entries(
    mounts: Sequence[Mapping[str, Any]], options: Mapping[str, Any], extra: Sequence[str] = ()
) -> list[dict[str, Any]]:
    """Return the mounts with their options.

    Raises:
        AnsibleFilterError: when a mount has no source or path.
    """
    try:
        return nfs_entries(mounts, options, extra)
    except (AttributeError, KeyError, TypeError, ValueError) as exc:
        message = f"nfs_entries: {exc!r}"
        raise AnsibleFilterError(message) from exc


class FilterModule:
    """The filter `busbar.cluster.nfs_entries`."""

    def filters(self) -> dict[str, Callable[..., object]]:
        """Return the filter by name."""
        return {"nfs_entries": entries}
