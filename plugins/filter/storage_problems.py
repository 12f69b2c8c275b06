"""Filter that tells what is wrong with a host's exports and mounts."""

from __future__ import annotations

DOCUMENTATION = r"""
name: storage_problems
author: busbar contributors
short_description: What is wrong with the exports or mounts of a host
description: What is wrong with the exports or mounts of a host.
options:
  _input:
    description: Items of the variable O(key).
    type: list
    elements: dict
    required: true
  key:
    description: V(nfs_server_exports), V(nfs_client_mounts) or V(storage_mounts_entries).
    type: str
    required: true
  host:
    description: Name of the host.
    type: str
    required: true
  servers:
    description: Hosts of the inventory that export; what is mounted from them is compared with their exports.
    type: list
    elements: str
    default: []
  variables:
    description: The variable C(hostvars).
    type: dict
    default: {}
  networks:
    description: Networks of the cluster, for exports.
    type: list
    elements: str
    default: []
"""

EXAMPLES = r"""
problems: "{{ nfs_server_exports | busbar.cluster.storage_problems('nfs_server_exports', inventory_hostname) }}"
"""

RETURN = r"""
_value:
  description: The problems, each with C(hosts), C(key), C(problem), C(remedy).
  type: list
  elements: dict
"""

from typing import TYPE_CHECKING, Any

from ..module_utils.preflight.storage import host_mount_problems
from ..module_utils.storage.problems import export_problems, network_problems
from ..plugin_utils.border import Filters, border

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ..module_utils.common.problems import Problem


def problems(  # noqa: PLR0913 - two variables of one host
    entries: Sequence[Mapping[str, Any]],
    key: str,
    host: str,
    *,
    servers: Sequence[str] = (),
    variables: Mapping[str, Mapping[str, Any]] | None = None,
    networks: Sequence[str] = (),
) -> list[Problem]:
    """Return the problems."""
    if key == "nfs_server_exports":
        return export_problems([host], entries) + network_problems([host], "nfs_server_networks", networks)
    return host_mount_problems(host, key, entries, servers, variables or {})


class FilterModule:
    """The filter `busbar.cluster.storage_problems`."""

    def filters(self) -> Filters:
        """Return the filter by its name."""
        return {"storage_problems": border(problems)}
