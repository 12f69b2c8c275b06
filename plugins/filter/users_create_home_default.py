"""Filter over the pure function of the same name."""

from __future__ import annotations

DOCUMENTATION = r"""
name: users_create_home_default
author: busbar contributors
short_description: Whether a host makes the homes of users
description:
  - Homes on a shared tree are made once, by the first server; root of a client is nobody there.
  - Homes on storage of somebody else are made there, by whoever keeps it.
options:
  _input:
    description: Directory of the homes.
    type: str
    required: true
  host:
    description: Name of the host.
    type: str
    required: true
  groups:
    description: The variable C(groups); C(nfs_server) and C(nfs_client) are read.
    type: dict
    required: true
  variables:
    description: The variable C(hostvars).
    type: dict
    required: true
"""

EXAMPLES = r"""
users_create_home: "{{ '/shared/home'
  | busbar.cluster.users_create_home_default(inventory_hostname, groups, hostvars) }}"
"""

RETURN = r"""
_value:
  description: Whether it does.
  type: bool
"""

from typing import TYPE_CHECKING, Any

from ..module_utils.storage.plan import users_create_home_default
from ..plugin_utils.border import Filters, border

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def made_here(
    base: str, host: str, groups: Mapping[str, Sequence[str]], variables: Mapping[str, Mapping[str, Any]]
) -> bool:
    """Return whether a host makes the homes."""
    return users_create_home_default(
        base, host, groups.get("nfs_server") or [], groups.get("nfs_client") or [], variables
    )


class FilterModule:
    """The filter `busbar.cluster.users_create_home_default`."""

    def filters(self) -> Filters:
        """Return the filter by its name."""
        return {"users_create_home_default": border(made_here, hint="the declared exports and mounts make no sense")}
