"""Check declared exports and mounts before any node is contacted."""

from __future__ import annotations

import ipaddress
import re
from typing import TYPE_CHECKING, Any

from ...module_utils.common.problems import Problem, make_problem
from ...module_utils.storage.mounts import STORAGE_TYPES, lies_in, nfs_source, option

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

# exports(5) of nfs-utils 2.6 and 2.8.
_EXPORT_OPTION = re.compile(
    r"(no_)?(acl|all_squash|auth_nlm|pnfs|root_squash|security_label|subtree_check|wdelay)|(no)?(crossmnt|hide)|a?sync|"
    r"(in)?secure(_locks)?|r[ow]|anon[ug]id|fsid|mp|mountpoint|refer|replicas|sec|xprtsec"
)
_EXPORT_KEYS = frozenset({"path", "clients", "options", "owner", "group", "mode", "mount"})
_MOUNT_KEYS = {
    "nfs_client_mounts": frozenset({"src", "path", "options", "automount"}),
    "storage_mounts_entries": frozenset({"type", "src", "path", "options", "automount", "packages"}),
}
_PATH = re.compile(r"/[A-Za-z0-9._+@:/-]*")
_MODE = re.compile(r"[0-7]{3,4}")
_NAME = re.compile(r"(@?|(\*\.)?)[A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?")
_WORD = re.compile(r"[^\s,()\"'#]+")
# System directories that cannot be exported, or used as mount points.
_NOT_FOR_SHARING = ("/proc", "/sys", "/dev", "/run", "/etc", "/boot", "/usr", "/bin", "/sbin", "/lib", "/root")
_NOT_FOR_MOUNTING = ("/proc", "/sys", "/dev", "/run", "/etc", "/boot", "/usr", "/bin", "/sbin", "/lib", "/var/lib/nfs")


def export_problems(hosts: Sequence[str], exports: object) -> list[Problem]:
    """Return the problems with a value of `nfs_server_exports` that several hosts share."""
    key = "nfs_server_exports"
    if not isinstance(exports, (list, tuple)):
        return [make_problem(hosts, key, "is not a list", "write a list of exports, each with a path")]
    if not exports:
        remedy = "add an export such as [{path: /shared}], or remove the host from the group nfs_server"
        return [make_problem(hosts, key, "is empty, so the server would have no exports", remedy)]
    problems = []
    for export in exports:
        problems += _one_export(hosts, key, export)
    paths = [_normal(export["path"]) for export in exports if isinstance(export, dict) and export.get("path")]
    for number, path in enumerate(paths):
        for other in paths[:number]:
            if path == other:
                problems.append(make_problem(hosts, key, f"exports {path} twice", "merge the two entries"))
            elif "/" not in {path, other} and (lies_in(path, other) or lies_in(other, path)):
                outer, inner = sorted((path, other), key=len)
                problem = (
                    f"{inner} is inside {outer}, which is also exported: permissions would depend on the mounted path"
                )
                problems.append(make_problem(hosts, key, problem, f"export only {outer}, or move {inner} out of it"))
    return problems


def network_problems(hosts: Sequence[str], key: str, networks: object) -> list[Problem]:
    """Return the problems with a list of networks."""
    if not isinstance(networks, (list, tuple)):
        return [make_problem(hosts, key, "is not a list", "write a list of networks, such as [10.0.0.0/24]")]
    faults = ((network, _network_fault(str(network))) for network in networks)
    return [make_problem(hosts, f"{key}[{name}]", *fault) for name, fault in faults if fault]


def mount_problems(
    host: str,
    key: str,
    entries: object,
    served: Mapping[str, Sequence[str]],
    exported: Iterable[str] = (),
) -> list[Problem]:
    """Return the problems with one host's mounts.

    Args:
        host: name of the host.
        key: variable, `nfs_client_mounts` or `storage_mounts_entries`.
        entries: value of the variable.
        served: exported paths of each server of the inventory, by all its names and addresses.
        exported: paths that this host exports.
    """
    if not isinstance(entries, (list, tuple)):
        return [make_problem([host], key, "is not a list", "write a list of mounts, each with src and path")]
    own = [_normal(path) for path in exported]
    problems = []
    paths: list[str] = []
    for entry in entries:
        found = _mount_form(host, key, entry)
        if not found:
            path = _normal(entry["path"])
            found = _mount_place(host, f"{key}[{path}]", path, paths, own)
            found += _mount_source(host, f"{key}[{path}]", entry, served)
            paths.append(path)
        problems += found
    return problems


def served_paths(
    servers: Mapping[str, Sequence[str]], exports: Mapping[str, Sequence[Mapping[str, Any]]], hosts: Iterable[str]
) -> dict[str, list[str]]:
    """Return the exported paths of each host, by all its names and addresses.

    Args:
        servers: names and addresses of each host of the inventory.
        exports: items of `nfs_server_exports` by server.
        hosts: all hosts; those without exports get an empty list.
    """
    served: dict[str, list[str]] = {}
    for host in hosts:
        declared = [item for item in exports.get(host, ()) if isinstance(item, dict) and "path" in item]
        paths = [_normal(str(item["path"])) for item in declared]
        # NFSv4 clients mount this export as / (exports(5), fsid).
        paths += ["/" for item in declared if {"fsid=0", "fsid=root"} & {*map(str, _items(item.get("options")))}]
        served |= dict.fromkeys([host, *servers.get(host, ())], paths)
    return served


def _one_export(hosts: Sequence[str], key: str, export: object) -> list[Problem]:
    """Return the problems with one export."""
    if not isinstance(export, dict) or not isinstance(export.get("path"), str):
        return [make_problem(hosts, key, f"has an entry without a path: {export}", "set path in each entry")]
    path, key = export["path"], f"{key}[{export['path']}]"
    problems = _unknown_keys(hosts, key, export, _EXPORT_KEYS)
    fault = _path_fault(path, _NOT_FOR_SHARING, "exported")
    if fault:
        problems.append(make_problem(hosts, key, *fault))
    if "clients" in export and not export["clients"]:
        problem, remedy = (
            "is empty, so no host could mount it",
            "list the clients, or remove the key `clients` to allow the whole cluster",
        )
        problems.append(make_problem(hosts, f"{key}.clients", problem, remedy))
    for client in _items(export.get("clients")):
        fault = _client_fault(str(client))
        if fault:
            problems.append(make_problem(hosts, f"{key}.clients", *fault))
    for item in _items(export.get("options")):
        name = str(item).partition("=")[0]
        if not _EXPORT_OPTION.fullmatch(name) or not _WORD.fullmatch(str(item)):
            remedy = "write one option of exports(5) per list item"
            problems.append(make_problem(hosts, f"{key}.options", f"{item!r} is not an export option", remedy))
    mode = export.get("mode")
    if mode is not None and not (isinstance(mode, str) and _MODE.fullmatch(mode)):
        problem = f"{mode!r} is not a file mode"
        problems.append(make_problem(hosts, f"{key}.mode", problem, 'write it in octal, in quotes, such as "1777"'))
    return problems


def _mount_form(host: str, key: str, entry: object) -> list[Problem]:
    """Return the format problems with one mount."""
    if not isinstance(entry, dict) or not all(isinstance(entry.get(name), str) for name in ("src", "path")):
        return [
            make_problem([host], key, f"has an entry without src or path: {entry}", "set src and path in each entry")
        ]
    key_here = f"{key}[{entry['path']}]"
    problems = _unknown_keys([host], key_here, entry, _MOUNT_KEYS[key])
    kind = entry.get("type")
    if "type" in _MOUNT_KEYS[key] and kind not in STORAGE_TYPES:
        known = ", ".join(STORAGE_TYPES)
        problems.append(make_problem([host], f"{key_here}.type", f"{kind!r} is not supported", f"use one of: {known}"))
    for item in _items(entry.get("options")):
        if not _WORD.fullmatch(str(item)):
            remedy = "write one option per list item, without spaces"
            problems.append(make_problem([host], f"{key_here}.options", f"{item!r} is not a mount option", remedy))
    if option(map(str, _items(entry.get("options"))), "secret", "password", "pass") is not None:
        remedy = "put the secret into a file with mode 0600 and refer to it with secretfile= or credentials="
        problems.append(
            make_problem([host], f"{key_here}.options", "contains a secret that all users could read", remedy)
        )
    return problems


def _mount_place(host: str, key: str, path: str, before: Sequence[str], own: Sequence[str]) -> list[Problem]:
    """Return the problems with a mount point."""
    fault = _path_fault(path, _NOT_FOR_MOUNTING, "mounted over")
    if fault:
        return [make_problem([host], key, *fault)]
    if path in before:
        return [make_problem([host], key, "is a duplicate mount point", "keep one of the entries")]
    hidden = next((export for export in own if lies_in(path, export) or lies_in(export, path)), None)
    if hidden:
        problem = f"the mount would hide {hidden}, which the host exports"
        return [make_problem([host], key, problem, "remove the host from nfs_client, or use another mount point")]
    return []


def _mount_source(host: str, key: str, entry: Mapping[str, Any], served: Mapping[str, Sequence[str]]) -> list[Problem]:
    """Return a problem if a server of the inventory does not export the source of a mount."""
    if entry.get("type", "nfs") != "nfs":
        return []
    try:
        server, path = nfs_source(entry["src"])
    except ValueError as exc:
        return [make_problem([host], f"{key}.src", str(exc), "write it as server:/path")]
    if server not in served or any(lies_in(path, export) for export in served[server]):
        return []
    if not served[server]:
        problem, remedy = f"{server} exports nothing", f"add {server} to nfs_server and set nfs_server_exports"
    else:
        problem = f"{server} does not export {path}, only {', '.join(served[server])}"
        remedy = "correct src, or add the path to nfs_server_exports of that server"
    return [make_problem([host], f"{key}.src", problem, remedy)]


def _path_fault(path: str, forbidden: Sequence[str], what: str) -> tuple[str, str] | None:
    """Return the problem and remedy for a path, or None."""
    if not path.startswith("/"):
        return "is not an absolute path", "use an absolute path"
    if _normal(path) == "/":
        return f"the root of the host cannot be {what}", "use a separate directory such as /shared"
    if not _PATH.fullmatch(path) or {".", ".."} & set(path.split("/")):
        return (
            "contains characters or parts that are not allowed in this path",
            "use only letters, digits and . _ + @ : -, without ..",
        )
    place = next((each for each in forbidden if lies_in(_normal(path), each)), None)
    if place:
        return f"{place} is a system directory and cannot be {what}", "use a separate directory such as /shared"
    return None


def _client_fault(client: str) -> tuple[str, str] | None:
    """Return the problem and remedy for an export's client, or None."""
    if re.fullmatch(r"[*?.]+", client) or client in {"0.0.0.0/0", "::/0", "everyone"}:
        return f"{client} allows every host", "list the networks, addresses or hosts that may mount it"
    if "/" in client or re.fullmatch(r"[0-9.]+|[0-9A-Fa-f:]*:[0-9A-Fa-f:]*", client):
        return _network_fault(client)
    if not _NAME.fullmatch(client):
        return f"{client!r} is not a network, address or host name", "use one of these, without options or spaces"
    return None


def _network_fault(network: str) -> tuple[str, str] | None:
    """Return the problem and remedy for a network or address, or None."""
    try:
        parsed = ipaddress.ip_network(network)
    except ValueError:
        try:
            meant = ipaddress.ip_network(network, strict=False)
        except ValueError:
            return f"{network!r} is not a network", "write it as address/bits, such as 10.0.0.0/24"
        return f"{network} has host bits set", f"write {meant}, or the address alone"
    if parsed.prefixlen == 0:
        return f"{network} allows every host", "list the networks of the cluster"
    return None


def _unknown_keys(hosts: Sequence[str], key: str, entry: Mapping[str, Any], known: frozenset[str]) -> list[Problem]:
    """Return a problem for each unknown key, and for each value that should be a list."""
    problems = [
        make_problem(hosts, f"{key}.{name}", "is not a known key", f"use one of: {', '.join(sorted(known))}")
        for name in sorted(set(map(str, entry)) - known)
    ]
    return problems + [
        make_problem(hosts, f"{key}.{name}", "is not a list", "write it as a list: [first, second]")
        for name in ("clients", "options", "packages")
        if name in known and not isinstance(entry.get(name) or [], (list, tuple))
    ]


def _items(value: object) -> Sequence[Any]:
    return value if isinstance(value, (list, tuple)) else ()


def _normal(path: str) -> str:
    return re.sub(r"/+", "/", path).rstrip("/") or "/"
