"""Filter over the pure function of the same name."""

from __future__ import annotations

DOCUMENTATION = r"""
name: exported_mounts
author: busbar contributors
short_description: The mounts that follow from what the first NFS server exports
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
mounts: "{{ groups['nfs_server'] | busbar.cluster.exported_mounts(hostvars, inventory_hostname) }}"
"""

RETURN = r"""
_value:
  description: C(src) and C(path) of each mount.
  type: list
  elements: dict
"""

from typing import TYPE_CHECKING, Any

from ansible.errors import AnsibleFilterError

from ..module_utils.storage.plan import exported_mounts

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


def mounts(servers: Sequence[str], variables: Mapping[str, Mapping[str, Any]], host: str) -> list[dict[str, Any]]:
    """Return the mounts of a client.

    Raises:
        AnsibleFilterError: when an export has no path.
    """
    try:
        return exported_mounts(servers, variables, host)
    except (AttributeError, KeyError, TypeError) as exc:
        message = f"exported_mounts: nfs_server_exports of {servers[0]}: {exc!r}"
        raise AnsibleFilterError(message) from exc


class FilterModule:
    """The filter `busbar.cluster.exported_mounts`."""

    def filters(self) -> dict[str, Callable[..., object]]:
        """Return the filter by name."""
        return {"exported_mounts": mounts}
