"""Filter that returns the addresses and networks that may mount an export."""

from __future__ import annotations

DOCUMENTATION = r"""
name: cluster_clients
author: busbar contributors (!UNKNOWN)
short_description: Addresses that may mount an export, merged into declared networks
description:
  - The address of a host is its C(hosts_address), else its C(ansible_host), else its name.
  - Addresses are merged only into declared networks, because other networks could include hosts outside of the cluster.
options:
  _input:
    description: Hosts of the inventory.
    type: list
    elements: str
    required: true
  variables:
    description: The variable C(hostvars).
    type: dict
    required: true
  networks:
    description: Networks of the cluster.
    type: list
    elements: str
    default: []
"""

EXAMPLES = r"""
clients: "{{ groups['all'] | busbar.cluster.cluster_clients(hostvars, ['10.0.0.0/24']) }}"
"""

RETURN = r"""
_value:
  description: The networks, then the addresses and names outside of them.
  type: list
  elements: str
"""

from typing import TYPE_CHECKING, Any

from ..plugin_utils.ansible_errors import filter_module
from ..plugin_utils.storage.plan import cluster_addresses, fold_clients

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def clients(
    hosts: Sequence[str], variables: Mapping[str, Mapping[str, Any]], networks: Sequence[str] = ()
) -> list[str]:
    """Return the clients that may mount the export, with addresses merged into networks."""
    return fold_clients(cluster_addresses(hosts, variables), networks)


FilterModule = filter_module("cluster_clients", clients)
