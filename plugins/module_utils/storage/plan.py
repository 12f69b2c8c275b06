"""What a host serves and mounts, worked out from the inventory alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .hosts_table import cluster_entries
from .mounts import STORAGE_TYPES, fstab_options, lies_in, option

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    Variables = Mapping[str, Mapping[str, Any]]

__all__ = [
    "cluster_addresses",
    "homes_are_shared",
    "mount_plan",
    "nfs_entries",
    "nfs_home_mounts",
    "nfs_mounts_from_exports",
]


def cluster_addresses(hosts: Sequence[str], variables: Variables) -> list[str]:
    """Return the address of each host: `hosts_address`, else `ansible_host`; its name where the inventory has neither.

    Raises:
        ValueError: when two hosts have one address.
    """
    return [entry["address"] or entry["target"] for entry in cluster_entries(hosts, variables)]


def nfs_mounts_from_exports(servers: Sequence[str], variables: Variables, host: str) -> list[dict[str, Any]]:
    """Return the mounts of a host that follow from what the first server exports: the same paths on every client.

    A server mounts nothing of its own. An export with `mount: false` is left to those who name it.
    """
    if not servers or host in servers:
        return []
    address = cluster_addresses([servers[0]], variables)[0]
    server = f"[{address}]" if ":" in address else address
    exports = variables[servers[0]].get("nfs_server_exports") or []
    return [
        {"src": f"{server}:{export['path']}", "path": export["path"]} for export in exports if export.get("mount", True)
    ]


def nfs_entries(
    mounts: Sequence[Mapping[str, Any]], options: Mapping[str, Any], extra: Sequence[str] = ()
) -> list[dict[str, Any]]:
    """Return NFS mounts as `storage_mounts_entries` has them, with all their options.

    Args:
        mounts: items of `nfs_client_mounts`.
        options: `version`, `hard`, `nconnect` (connections, 0 for the kernel's default), `rsize` and `wsize` (bytes),
            `automount`.
        extra: further options of all mounts.
    """
    entries = []
    for mount in mounts:
        own = list(mount.get("options") or [])
        names = {item.partition("=")[0] for item in own}
        base = _nfs_options(options, rdma="rdma" in names or (option(own, "proto") or "").startswith("rdma"))
        same = {"hard": "soft", "soft": "hard", "vers": "nfsvers", "rw": "ro", "nosuid": "suid", "nodev": "dev"}
        kept = [
            item
            for item in [*base, *extra]
            if item.partition("=")[0] not in names and same.get(item.partition("=")[0]) not in names
        ]
        automount = bool(mount.get("automount", options["automount"]))
        entries.append(
            {
                "type": "nfs",
                "src": mount["src"],
                "path": mount["path"],
                "options": [*kept, *own],
                "automount": automount,
            }
        )
    return entries


def mount_plan(entries: Sequence[Mapping[str, Any]], wait_s: int) -> list[dict[str, Any]]:
    """Return the fields of fstab of each mount, parents first.

    Args:
        entries: items of `storage_mounts_entries`.
        wait_s: seconds that a booting host waits for the servers.
    """
    return [
        {
            "path": entry["path"],
            "src": entry["src"],
            "fstype": STORAGE_TYPES[entry["type"]].fstype,
            "opts": fstab_options(entry, wait_s),
            "automount": bool(entry.get("automount")),
        }
        for entry in sorted(entries, key=lambda item: str(item["path"]).count("/"))
    ]


def homes_are_shared(
    base: str, host: str, servers: Sequence[str], clients: Sequence[str], variables: Variables
) -> bool:
    """Return whether the inventory declares storage for the homes below `base` on a host."""
    mine = variables[host]
    brought = _list(mine, "storage")
    if host in servers:
        brought += _list(variables[servers[0]], "exports")
    elif host in clients:
        declared = mine.get("nfs_client_mounts")
        brought += nfs_mounts_from_exports(servers, variables, host) if declared is None else list(declared)
    return _covers(brought, base)


def _covers(places: Sequence[Mapping[str, Any]], base: str) -> bool:
    """Return whether a directory lies in one of the exports or mounts."""
    return any(lies_in(base, str(place.get("path"))) for place in places)


def nfs_home_mounts(entries: Sequence[Mapping[str, Any]], base: str) -> list[str]:
    """Return the paths of the NFS mounts on which homes below `base` lie, or some of them.

    Args:
        entries: as `storage_mounts_entries` has them.
        base: directory of the homes.
    """
    paths = [str(entry.get("path")) for entry in entries if entry.get("type") == "nfs"]
    return [path for path in paths if lies_in(base, path) or lies_in(path, base)]


def _list(variables: Mapping[str, Any], kind: str) -> list[Mapping[str, Any]]:
    name = {"exports": "nfs_server_exports", "storage": "storage_mounts_entries"}[kind]
    return list(variables.get(name) or [])


def _nfs_options(options: Mapping[str, Any], *, rdma: bool) -> list[str]:
    """Return the options of all NFS mounts; more than one connection is a matter of TCP."""
    connections = [] if rdma or not int(options["nconnect"]) else [f"nconnect={options['nconnect']}"]
    return [
        f"vers={options['version']}",
        "hard" if options["hard"] else "soft",
        *connections,
        f"rsize={options['rsize']}",
        f"wsize={options['wsize']}",
    ]
