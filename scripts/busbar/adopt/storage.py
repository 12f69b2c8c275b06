"""Exports and mounts of the hosts of a cluster."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from .draft import ASK, CARRIED, LEFT

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .cluster_source import HostReading
    from .draft import Draft

_CLIENT = re.compile(r"([^\s()]+)\(([^)]*)\)|([^\s()]+)")
_SYSTEM = ("/", "/boot", "/boot/efi", "/usr", "/var", "/tmp", "/home/root", "none", "swap")  # noqa: S108 - mount points
_FSTAB_FIELDS = 4
_VERSION = re.compile(r"(?:nfs)?vers=([\d.]+)")


def carry_storage(draft: Draft, hosts: Mapping[str, HostReading], known: Mapping[str, str]) -> None:
    """Declare exports and NFS mounts, and list other mounts, which stay.

    Args:
        draft: the draft.
        hosts: readings by host.
        known: addresses of hosts by name.
    """
    servers = [host for host, reading in hosts.items() if host in draft.hosts and _carry_exports(draft, host, reading)]
    draft.groups["nfs_server"] = servers
    addresses = {known.get(name) or draft.hosts[name].get("ansible_host", name): name for name in servers}
    clients: dict[str, list[dict[str, Any]]] = {}
    mounts: dict[str, list[dict[str, Any]]] = {}
    for host, reading in hosts.items():
        for line in reading.files.get("/etc/fstab", "").splitlines():
            fields = line.split("#")[0].split()
            if len(fields) < _FSTAB_FIELDS or host not in draft.hosts:
                continue
            name = fields[0].partition(":")[0]
            if fields[2] in {"nfs", "nfs4"} and host not in {name, addresses.get(name)}:
                inside = name in servers or name in addresses
                option = "nfs_client_mounts" if inside else "storage_mounts_entries"
                reason = f"{option}: {' '.join(fields[:4])}"
                draft.note(f"mount {fields[1]} on {host}", CARRIED, reason, "/etc/fstab")
                options = [each for each in fields[3].split(",") if each not in {"defaults", "_netdev"}]
                options += _mounted_version(fields[1], options, reading.commands.get("mounts", ""))
                entry = {"src": fields[0], "path": fields[1], "options": options}
                (clients if inside else mounts).setdefault(host, []).append(entry)
            elif fields[1] not in _SYSTEM and fields[2] not in {"swap", "tmpfs", "proc", "sysfs", "devpts"}:
                reason = f"{' '.join(fields[:4])}: no role mounts it; it stays"
                draft.note(f"mount {fields[1]} on {host}", LEFT, reason, "/etc/fstab")
        if any(path.startswith("/etc/auto.") and "master" not in path for path in reading.files):
            draft.note(f"autofs on {host}", LEFT, "stays; busbar does not manage automount maps")
    draft.spread(
        "storage_mounts_entries", {host: [{"type": "nfs", **each} for each in found] for host, found in mounts.items()}
    )
    if not clients:
        return
    draft.groups["nfs_client"] = list(clients)
    for host, entries in clients.items():
        draft.hosts[host]["nfs_client_mounts"] = entries
    # The options of fstab only; busbar would add its own.
    draft.variables |= {"nfs_client_nconnect": 0, "nfs_client_options": []}
    draft.variables |= {"nfs_client_rsize": 0, "nfs_client_wsize": 0}
    options = [option for entries in clients.values() for entry in entries for option in entry["options"]]
    versions = {matched[1] for option in options if (matched := _VERSION.fullmatch(option))}
    if len(versions) == 1 and versions < {"3", "4.0", "4.1", "4.2"}:
        draft.variables["nfs_client_version"] = versions.pop()


def _carry_exports(draft: Draft, host: str, reading: HostReading) -> bool:
    """Declare the exports of a host, and return whether it has any."""
    entries = [
        entry
        for path, text in reading.files.items()
        if path == "/etc/exports" or path.startswith("/etc/exports.d/")
        for line in text.replace("\\\n", " ").splitlines()
        for entry in _export(draft, line.split("#")[0], f"{host}:{path}")
    ]
    if entries:
        # Options that an export does not set have the defaults of exports(5), not busbar's.
        draft.hosts[host] |= {"nfs_server_exports": entries, "nfs_server_options": []}
        _carry_server(draft, host, reading)
    return bool(entries)


def _carry_server(draft: Draft, host: str, reading: HostReading) -> None:
    """Keep the versions and threads of a running NFS server."""
    words = reading.commands.get("nfsd-versions", "").split()
    minor = [word[1:] for word in words if re.fullmatch(r"\+4\.\d", word)]
    versions = (["3"] if "+3" in words else []) + [each for each in minor if "-4" not in words]
    threads = reading.commands.get("nfsd-threads", "").strip()
    if not versions or not threads.isdigit() or threads == "0":
        question = "its versions and threads were not read; busbar sets its own: NFS 4.2 only"
        draft.note(f"NFS server of {host}", ASK, question)
        return
    draft.hosts[host] |= {"nfs_server_versions": versions, "nfs_server_threads": int(threads)}
    draft.note(f"NFS server of {host}", CARRIED, f"stays: versions {', '.join(versions)}, {threads} threads")


def _mounted_version(path: str, options: list[str], mounts: str) -> list[str]:
    """Return the option for the version of NFS that a mount has, unless fstab names a version."""
    if any(_VERSION.fullmatch(option) for option in options):
        return []
    lines = [line.split() for line in mounts.splitlines()]
    mounted = next((words[-1] for words in lines if words and words[0] == path), "")
    return [option for option in mounted.split(",") if re.fullmatch(r"vers=[\d.]+", option)]


def _export(draft: Draft, line: str, where: str) -> list[dict[str, Any]]:
    """Return an export of a line of exports(5); empty for a blank line or one that the role refuses."""
    path, _, rest = line.strip().partition(" ")
    if not path:
        return []
    found = [(name or bare, options) for name, options, bare in _CLIENT.findall(rest)]
    if any(name == "*" for name, _ in found) or not found:
        warning = "; THE EXPORT HAS A KEY, change the key" if re.search(r"munge|key|secret", path) else ""
        draft.note(f"export {path}", LEFT, f"open to every host (*), which the role refuses{warning}; it stays", where)
        return []
    sets = list(dict.fromkeys(options for _, options in found))
    if len(sets) > 1:
        draft.note(f"export {path}", LEFT, "the clients have different options; it stays in /etc/exports", where)
        return []
    if "no_root_squash" in sets[0]:
        draft.note(f"export {path}", ASK, "no_root_squash: root on each client is root here; is that needed?", where)
    draft.note(f"export {path}", CARRIED, "nfs_server_exports", where)
    entry: dict[str, Any] = {"path": path, "clients": [name for name, _ in found], "mount": False}
    return [entry | ({"options": sets[0].split(",")} if sets[0] else {})]
