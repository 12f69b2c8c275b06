"""Converts NFS exports and mounts of DeepOps."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from ansible_collections.busbar.cluster.plugins.module_utils.storage.mounts import lies_in

from busbar.adopt.draft import ASK, CARRIED, LEFT

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from busbar.adopt.draft import Draft
    from busbar.adopt.source import Source

_CLIENT = re.compile(r"([^\s()]+)?\(([^)]*)\)|([^\s()]+)")
_VERSIONS = {"3": "3", "4": "4.2", "4.0": "4.0", "4.1": "4.1", "4.2": "4.2"}


def adopt_exports(draft: Draft, servers: Sequence[str], exports: Sequence[Mapping[str, Any]], where: str) -> None:
    """Set nfs_server and its exports. An export inside another is served with it.

    Args:
        draft: receives group, options and notes.
        servers: hosts that export.
        exports: items with `path` and `options`, a line of exports(5).
        where: file and line, for the notes.
    """
    made: list[dict[str, Any]] = []
    for item in sorted(exports, key=lambda each: str(each.get("path"))):
        path = str(item["path"]).rstrip("/") or "/"
        outer = next((entry["path"] for entry in made if lies_in(path, entry["path"])), "")
        if outer:
            draft.note(
                f"nfs_exports {path}", LEFT, f"served with {outer}; its options were {item.get('options')}", where
            )
            continue
        clients, options, differ = _clients(str(item.get("options") or ""))
        if differ:
            draft.note(
                f"nfs_exports {path}",
                ASK,
                f"clients have different options ({item['options']}); the draft has those of the first",
                where,
            )
        if "*" in clients:
            draft.note(
                f"nfs_exports {path}", LEFT, "* (every host of the network): only hosts of the cluster may mount", where
            )
        entry = {"path": path, "options": options, "clients": [] if "*" in clients else clients}
        made.append({key: value for key, value in entry.items() if value})
    draft.groups["nfs_server"] = list(servers)
    draft.group_variables["nfs_server"] = {"nfs_server_exports": made}
    draft.note("nfs_exports", CARRIED, f"nfs_server_exports: {', '.join(entry['path'] for entry in made)}", where)


def adopt_mounts(draft: Draft, source: Source, mounts: Mapping[str, Sequence[Mapping[str, Any]]], where: str) -> None:
    """Set mounts: the cluster's server in nfs_client_mounts, others in storage_mounts_entries.

    Args:
        draft: receives group, options and notes.
        source: the inventory, for addresses of servers.
        mounts: items with `mountpoint`, `server`, `path` and `options` by host.
        where: file and line, for the notes.
    """
    servers = draft.groups.get("nfs_server", [])
    addresses = {str(source.hosts[host].get("ansible_host") or host): host for host in servers} | {
        host: host for host in servers
    }
    inside: dict[str, list[dict[str, Any]]] = {}
    outside: dict[str, list[dict[str, Any]]] = {}
    versions: set[str] = set()
    for host, items in mounts.items():
        for item in items:
            server, path = str(item.get("server")), str(item["mountpoint"])
            options = [word.strip() for word in str(item.get("options") or "").split(",") if word.strip()]
            entry = {"src": f"{addresses.get(server, server)}:{item.get('path')}", "path": path, "options": options}
            if server not in addresses:
                outside.setdefault(host, []).append({"type": "nfs", **entry})
            elif host in servers:
                draft.note(f"nfs_mounts {path}", LEFT, f"{host} exports it and does not mount it", where)
            else:
                inside.setdefault(host, []).append(entry)
                versions |= {
                    _VERSIONS.get(word.partition("=")[2], "4.2")
                    for word in options
                    if word.startswith(("vers=", "nfsvers="))
                }
    draft.spread("storage_mounts_entries", outside)
    if inside:
        draft.groups["nfs_client"] = list(inside)
        _share(draft, "nfs_client", "nfs_client_mounts", inside)
        draft.variables["nfs_client_options"] = []
        if versions - {"4.2"}:
            draft.group_variables["nfs_server"]["nfs_server_versions"] = sorted(versions | {"4.2"})
    for name, found in (("nfs_client_mounts", inside), ("storage_mounts_entries", outside)):
        paths = dict.fromkeys(entry["path"] for entries in found.values() for entry in entries)
        if paths:
            draft.note("nfs_mounts", CARRIED, f"{name}: {', '.join(paths)}", where)


def _share(draft: Draft, group: str, option: str, values: Mapping[str, Any]) -> None:
    """Set an option for the group if all its hosts have the same value, otherwise for each host."""
    first = next(iter(values.values()))
    if all(value == first for value in values.values()):
        draft.group_variables.setdefault(group, {})[option] = first
    else:
        draft.spread(option, values)


def _clients(text: str) -> tuple[list[str], list[str], bool]:
    """Return clients and options of a line of exports(5), and whether the options differ between clients."""
    found = [(each[0] or each[2] or "*", each[1]) for each in _CLIENT.findall(text)]
    options = list(dict.fromkeys(words for _client, words in found)) or [""]
    return [client for client, _words in found], [word for word in options[0].split(",") if word], len(options) > 1
