"""Derive export clients and NFS mounts from the inventory."""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING, Any

from ...module_utils.storage.hosts_table import cluster_entries
from ...module_utils.storage.mounts import lies_in

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    Variables = Mapping[str, Mapping[str, Any]]


def cluster_addresses(hosts: Sequence[str], variables: Variables) -> list[str]:
    """Return the address of each host: `hosts_address`, else `ansible_host`, else its name.

    Raises:
        ValueError: if two hosts have the same address.
    """
    return [entry["address"] or entry["target"] for entry in cluster_entries(hosts, variables)]


def fold_clients(addresses: Iterable[str], networks: Sequence[str]) -> list[str]:
    """Return the clients of an export: the declared networks, then addresses and names outside of them.

    Addresses are not merged into other networks, which could include hosts outside of the cluster.

    Raises:
        ValueError: if a network is malformed.
    """
    known = [ipaddress.ip_network(network) for network in networks]
    outside = [each for each in dict.fromkeys(addresses) if not _covered(each, known)]
    return [*map(str, dict.fromkeys(known)), *outside]


def nfs_mounts_from_exports(servers: Sequence[str], variables: Variables, host: str) -> list[dict[str, Any]]:
    """Return the mounts of a client for all exports of the first server, with the same paths.

    The result is empty for servers, and does not include exports with `mount: false`.
    """
    if not servers or host in servers:
        return []
    address = cluster_addresses([servers[0]], variables)[0]
    server = f"[{address}]" if ":" in address else address
    exports = variables[servers[0]].get("nfs_server_exports") or []
    return [
        {"src": f"{server}:{export['path']}", "path": export["path"]} for export in exports if export.get("mount", True)
    ]


def homes_are_shared(
    base: str, host: str, servers: Sequence[str], clients: Sequence[str], variables: Variables
) -> bool:
    """Return whether the inventory declares shared storage for home directories below `base` on a host."""
    mine = variables[host]
    places = [*(mine.get("storage_mounts_entries") or [])]
    if host in servers:
        places += variables[servers[0]].get("nfs_server_exports") or []
    elif host in clients:
        declared = mine.get("nfs_client_mounts")
        places += nfs_mounts_from_exports(servers, variables, host) if declared is None else declared
    return any(lies_in(base, str(place.get("path"))) for place in places)


def _covered(address: str, networks: Sequence[Any]) -> bool:
    try:
        return any(ipaddress.ip_address(address) in network for network in networks)
    except ValueError:
        return False
