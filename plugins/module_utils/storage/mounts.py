"""Parse and compare a host's mounts, and list the requirements of each storage type."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

__all__ = [
    "STORAGE_TYPES",
    "Mount",
    "StorageType",
    "endpoints",
    "fstab_options",
    "is_same_mount",
    "kernel_offers",
    "lies_in",
    "mount_plan",
    "mounts_at",
    "mounts_below",
    "nfs_home_mounts",
    "nfs_source",
    "on_network",
    "option",
    "parse_mountinfo",
    "trial_options",
]

NFS_PORT = 2049
_NETWORK = frozenset(
    {"nfs", "nfs4", "lustre", "beegfs", "wekafs", "ceph", "cifs", "smb3", "gpfs", "afs", "9p", "fuse.sshfs"}
)
_OCTAL = re.compile(r"\\([0-7]{3})")
# Options that are meaningless for a trial mount, or would delay it.
_NOT_TRIED = ("hard", "bg", "fg", "rw", "_netdev", "auto", "noauto", "nofail", "user", "users", "defaults")


class Mount(TypedDict):
    """A line of /proc/self/mountinfo; later lines cover earlier ones."""

    path: str
    fstype: str
    source: str
    options: list[str]


class StorageType(NamedTuple):
    """Client requirements of a storage type.

    Attributes:
        fstype: type for `mount -t`.
        shown: types in the kernel's mount table.
        module: kernel module.
        helper: mount helper, '' if none is needed.
        origin: client packages and their source.
    """

    fstype: str
    shown: tuple[str, ...]
    module: str
    helper: str
    origin: str


STORAGE_TYPES = {
    "nfs": StorageType(
        "nfs", ("nfs", "nfs4"), "nfs", "mount.nfs", "nfs-common (Debian, Ubuntu) or nfs-utils (RHEL, Rocky)"
    ),
    "lustre": StorageType(
        "lustre",
        ("lustre",),
        "lustre",
        "mount.lustre",
        "lustre-client with its kernel module, of the servers' release, from the vendor of the storage",
    ),
    "beegfs": StorageType(
        "beegfs",
        ("beegfs",),
        "beegfs",
        "",
        "beegfs-client and beegfs-utils from BeeGFS's package repository, and start the service beegfs-client",
    ),
    "weka": StorageType(
        "wekafs",
        ("wekafs",),
        "wekafsio",
        "mount.wekafs",
        "the WEKA client, from a backend of the WEKA cluster (port 14000, /dist/v1/install)",
    ),
    "cephfs": StorageType(
        "ceph",
        ("ceph",),
        "ceph",
        "mount.ceph",
        "ceph-common, from the distribution (Debian, Ubuntu) or from Ceph's package repository (RHEL, Rocky)",
    ),
}


def parse_mountinfo(text: str) -> list[Mount]:
    """Return the mounts in the text of /proc/self/mountinfo, in order.

    Format: proc(5). Unlike stat on a mount point, reading it never waits for a server.
    """
    found: list[Mount] = []
    for line in text.splitlines():
        left, _, right = line.partition(" - ")
        before, after = left.split(), right.split()
        if len(before) < 6 or len(after) < 3:  # noqa: PLR2004 - fields in proc(5)
            continue
        options = [*before[5].split(","), *after[2].split(",")]
        found.append(
            {"path": _unescape(before[4]), "fstype": after[0], "source": _unescape(after[1]), "options": options}
        )
    return found


def mounts_at(path: str, mounts: Iterable[Mount]) -> list[Mount]:
    """Return the mounts at exactly this path; the last one is visible."""
    return [mount for mount in mounts if mount["path"] == path]


def mounts_below(path: str, mounts: Iterable[Mount]) -> list[Mount]:
    """Return the mounts below this path, which a mount over it would hide."""
    return [mount for mount in mounts if mount["path"] != path and lies_in(mount["path"], path)]


def on_network(path: str, mounts: Iterable[Mount]) -> bool:
    """Return whether a path is on a network file system, or triggers an automount of one.

    Accessing the path may hang.
    """
    holder: Mount | None = None
    for mount in mounts:
        if lies_in(path, mount["path"]) and (holder is None or len(mount["path"]) >= len(holder["path"])):
            holder = mount
    return holder is not None and (holder["fstype"] in _NETWORK or holder["fstype"] == "autofs")


def lies_in(path: str, folder: str) -> bool:
    """Return whether a path is a folder or inside it: /a/b lies in /a, /ab does not."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def nfs_source(source: str) -> tuple[str, str]:
    """Return server and path of an NFS source: '[fd00::1]:/x' gives ('fd00::1', '/x').

    Raises:
        ValueError: the source does not have the form server:/path.
    """
    found = re.fullmatch(r"(?:\[([0-9A-Fa-f:.%\w]+)\]|([^\s:/\[\]]+)):(/\S*)", source)
    if not found:
        message = f"{source!r} is not of the form server:/path"
        raise ValueError(message)
    path = found[3].rstrip("/") or "/"
    return found[1] or found[2], path


def option(options: Iterable[str], *names: str) -> str | None:
    """Return the value of the last option with one of these names ('' if it has no value), or None if missing."""
    value = None
    for item in options:
        name, _, given = item.partition("=")
        if name in names:
            value = given
    return value


def is_same_mount(declared: Mapping[str, Any], found: Mount, addresses: Sequence[str] = ()) -> bool:
    """Return whether the current mount is the declared one.

    Args:
        declared: `type` and `src`.
        found: the visible mount at the path.
        addresses: addresses of the declared NFS server; another name of the same server also matches.
    """
    kind = STORAGE_TYPES[declared["type"]]
    if found["fstype"] not in kind.shown:
        return False
    if declared["type"] != "nfs":
        return _last_part(declared["src"]) == _last_part(found["source"])
    try:
        server, path = nfs_source(declared["src"])
        there, there_path = nfs_source(found["source"])
    except ValueError:
        return False
    known = {server, *addresses}
    return path == there_path and (there in known or option(found["options"], "addr") in known)


def endpoints(entry: Mapping[str, Any]) -> list[tuple[str, int]]:
    """Return (host, TCP port) of the servers of a mount, one of which must answer; [] if the source names none.

    Ports: NFS 2049 (RFC 7530; NFS over RDMA uses another port), Lustre 988, Ceph monitors 3300 and 6789, WEKA 14000.

    Args:
        entry: `type`, `src` and `options`.
    """
    source, options = str(entry["src"]), entry.get("options") or []
    if entry["type"] == "nfs":
        given = None if is_rdma(options) else option(options, "port")
        return [(nfs_source(source)[0], int(given or NFS_PORT))]
    if entry["type"] == "lustre":
        return [(nid.partition("@")[0], 988) for nid in re.split(r"[:,]", source.partition(":/")[0]) if "@tcp" in nid]
    if entry["type"] == "cephfs":
        monitors = re.split("[,/]", option(options, "mon_addr") or "") if "=" in source else source.split(",")
        hosts = [re.sub(r"(:\d+)?(:/.*)?$", "", monitor) for monitor in monitors if monitor]
        return [(host, port) for host in hosts if host for port in (3300, 6789)]
    if entry["type"] == "weka" and "/" in source:
        return [(host, 14000) for host in source.partition("/")[0].split(",") if host]
    return []


def is_rdma(options: Iterable[str]) -> bool:
    """Return whether the options select NFS over RDMA."""
    given = list(options)
    return option(given, "rdma") is not None or (option(given, "proto") or "").startswith("rdma")


def fstab_options(entry: Mapping[str, Any], wait_s: int) -> str:
    """Return the options field of the mount in fstab: the declared options and systemd's options.

    Args:
        entry: `type`, `options` and `automount`.
        wait_s: seconds that a booting host waits for the server; mount.nfs waits two minutes by default, and its
            `retry` is in minutes (nfs(5)).
    """
    options = [*(entry.get("options") or []), "_netdev"]
    if entry["type"] == "nfs" and option(options, "retry") is None:
        options.append(f"retry={-(-wait_s // 60)}")
    options += ["x-systemd.automount"] if entry.get("automount") else []
    return ",".join(dict.fromkeys([*options, f"x-systemd.mount-timeout={wait_s}s"]))


def mount_plan(entries: Sequence[Mapping[str, Any]], wait_s: int) -> list[dict[str, Any]]:
    """Return the fstab fields of each mount, parents first.

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


def nfs_home_mounts(entries: Sequence[Mapping[str, Any]], base: str) -> list[str]:
    """Return the paths of the NFS mounts that contain home directories below `base`.

    Args:
        entries: items of `storage_mounts_entries`.
        base: parent directory of the homes.
    """
    paths = [str(entry.get("path")) for entry in entries if entry.get("type") == "nfs"]
    return [path for path in paths if lies_in(base, path) or lies_in(path, base)]


def trial_options(options: Iterable[str]) -> str:
    """Return the options for a trial NFS mount: the declared ones, read-only and with short timeouts.

    `timeo` is in tenths of a second, `retry` in minutes (nfs(5)); nosharecache separates the trial from other mounts.
    """
    kept = [
        item for item in options if item not in _NOT_TRIED and not item.startswith(("x-", "timeo", "retrans", "retry"))
    ]
    return ",".join([*kept, "ro", "soft", "timeo=50", "retrans=1", "retry=0", "nosharecache"])


def kernel_offers(name: str, filesystems: str, modules: Iterable[str]) -> bool:
    """Return whether the running kernel has a file system, or a loadable module for it.

    Args:
        name: name of the file system or module.
        filesystems: text of /proc/filesystems.
        modules: contents of modules.dep and modules.builtin of the running kernel.
    """
    if name in filesystems.split():
        return True
    wanted = re.compile(rf"(^|/){re.escape(name).replace('_', '[-_]')}\.ko(\.(xz|gz|zst))?(:|$)", re.MULTILINE)
    return any(wanted.search(text) for text in modules)


def _unescape(text: str) -> str:
    return _OCTAL.sub(lambda found: chr(int(found[1], 8)), text)


def _last_part(source: str) -> str:
    return re.split(r"[:=/]", source.rstrip("/"))[-1]
