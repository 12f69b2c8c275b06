"""Check the storage options of all hosts together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...module_utils.common.problems import Problem, make_problem
from ...module_utils.storage.hosts_table import cluster_entries
from ..storage.plan import homes_are_shared, nfs_mounts_from_exports
from ..storage.problems import export_problems, mount_problems, network_problems, served_paths

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    Variables = Mapping[str, Mapping[str, Any]]

_READ = (
    "ansible_host",
    "hosts_address",
    "hosts_aliases",
    "storage_backend",
    "nfs_server_exports",
    "nfs_client_mounts",
    "storage_mounts_entries",
    "cluster_networks",
    "nfs_server_networks",
    "users_create_home",
    "users_home_base",
)
_NETWORKS = ("cluster_networks", "nfs_server_networks")
_BACKENDS = ("nfs", "bind")
_HOME_REMEDY = (
    "set nfs_server_exports: [{path: /shared}], add these hosts to nfs_server or nfs_client, and set "
    "users_home_base: /shared/home; or declare existing storage in storage_mounts_entries. Set users_create_home: "
    "false if something else mounts it, or true if home directories are local to each host"
)


def site_storage_problems(
    hosts: Sequence[str], servers: Sequence[str], clients: Sequence[str], variables: Variables
) -> list[Problem]:
    """Return the problems with the exports and mounts of a site.

    Args:
        hosts: all hosts.
        servers: NFS servers.
        clients: NFS clients.
        variables: variables of every host.
    """
    # Copy the variables, because Ansible templates them on each access.
    variables = {host: _known(variables[host]) for host in {*hosts, *servers, *clients}}
    problems = []
    for host in servers:
        own = variables[host]
        problems += export_problems([host], own.get("nfs_server_exports") or [])
        for key in _NETWORKS:
            problems += network_problems([host], key, own.get(key) or [])
    names = {
        entry["name"]: sorted({entry["address"], entry["target"], *entry["names"]} - {""})
        for host in hosts
        for entry in cluster_entries([host], variables)
    }
    served = served_paths(names, _exports(servers, variables), hosts)
    for host in hosts:
        problems += _backend_problems(host, variables[host])
        problems += _host_problems(host, servers, clients, variables, served)
    return problems


def home_problems(
    hosts: Sequence[str], servers: Sequence[str], clients: Sequence[str], variables: Variables, *, has_users: bool
) -> list[Problem]:
    """Return a problem for hosts without declared shared storage for home directories, if users work on several hosts.

    Hosts that set `users_create_home` are skipped.

    Args:
        hosts: hosts on which users work.
        servers: NFS servers.
        clients: NFS clients.
        variables: variables of every host.
        has_users: whether the site declares users; hosts that set `users_home_base` are checked in any case.
    """
    known = {host: _known(variables[host]) for host in {*hosts, *servers}} if len(hosts) > 1 else {}
    hosts_of: dict[str, list[str]] = {}
    for host in hosts if known else ():
        base = str(known[host].get("users_home_base") or "/home")
        looked_at = (has_users or "users_home_base" in known[host]) and "users_create_home" not in known[host]
        if looked_at and not homes_are_shared(base, host, servers, clients, known):
            hosts_of.setdefault(base, []).append(host)
    problem = "is not on shared storage declared in the inventory: each host would create local home directories"
    return [
        make_problem(found, "users_home_base", f"{base} {problem}", _HOME_REMEDY) for base, found in hosts_of.items()
    ]


def host_mount_problems(
    host: str, key: str, entries: Sequence[Mapping[str, Any]], servers: Sequence[str], variables: Variables
) -> list[Problem]:
    """Return the problems with one host's mounts.

    Args:
        host: name of the host.
        key: `nfs_client_mounts` or `storage_mounts_entries`.
        entries: items of that variable.
        servers: NFS servers of the inventory; mounts from them are compared with their exports.
        variables: variables of every host.
    """
    names = {entry["name"]: [entry["address"], entry["target"]] for entry in cluster_entries(servers, variables)}
    served = served_paths(names, _exports(servers, variables), servers)
    return mount_problems(host, key, entries, served, _own_exports(host, servers, variables))


def _known(variables: Mapping[str, Any]) -> dict[str, Any]:
    """Return the variables of a host that these checks read."""
    return {key: variables[key] for key in _READ if key in variables}


def _host_problems(
    host: str,
    servers: Sequence[str],
    clients: Sequence[str],
    variables: Variables,
    served: Mapping[str, Sequence[str]],
) -> list[Problem]:
    """Return the problems with all mounts of a host."""
    mine, own = variables[host], _own_exports(host, servers, variables)
    others = mine.get("storage_mounts_entries") or []
    problems = mount_problems(host, "storage_mounts_entries", others, served, own)
    if host not in clients:
        return problems
    declared = mine.get("nfs_client_mounts")
    mounts = nfs_mounts_from_exports(servers, variables, host) if declared is None and not problems else declared or []
    if not mounts and host not in servers and not others:
        remedy = "set nfs_server_exports for the host in nfs_server, or nfs_client_mounts for the client"
        problems.append(
            make_problem([host], "nfs_client_mounts", "is empty, so the client would have no mounts", remedy)
        )
    problems += mount_problems(host, "nfs_client_mounts", mounts, served, own)
    return problems + _shared_places(host, mounts, others)


def _shared_places(host: str, *kinds: Sequence[Mapping[str, Any]]) -> list[Problem]:
    """Return a problem for each mount point that both variables declare."""
    first, second = (
        {str(entry.get("path")).rstrip("/") for entry in kind if isinstance(entry, dict)} for kind in kinds
    )
    remedy = "keep one of the entries"
    return [
        make_problem([host], f"nfs_client_mounts[{path}]", "is also in storage_mounts_entries", remedy)
        for path in sorted(first & second)
    ]


def _backend_problems(host: str, variables: Mapping[str, Any]) -> list[Problem]:
    """Return a problem for an unknown storage backend."""
    backend = variables.get("storage_backend", "nfs")
    if backend in _BACKENDS:
        return []
    remedy = "use nfs, or bind in containers with a bind-mounted shared tree"
    return [make_problem([host], "storage_backend", f"{backend!r} is not a valid value", remedy)]


def _exports(servers: Sequence[str], variables: Variables) -> dict[str, list[Mapping[str, Any]]]:
    return {host: list(variables[host].get("nfs_server_exports") or []) for host in servers}


def _own_exports(host: str, servers: Sequence[str], variables: Variables) -> list[str]:
    exports = _exports(servers, variables).get(host, [])
    return [str(item["path"]) for item in exports if isinstance(item, dict) and "path" in item]
