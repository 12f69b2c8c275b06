"""Describe why a mount is not possible, with the remedy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .mounts import STORAGE_TYPES, is_same_mount, lies_in, mounts_at, mounts_below

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from .mounts import Mount

__all__ = ["KNOWN_FAILURES", "bound_state", "busy_fault", "content_fault", "kernel_fault", "place_state", "trial_fault"]

Fault = tuple[str, str]

_SHOWN = 5
_HOMES = "/home"
KNOWN_FAILURES = (
    (
        ("access denied", "operation not permitted", "permission denied"),
        "add this host or its network to the clients of that export, and run the server's role before this one",
    ),
    (("no such file", "does not exist", "not found"), "correct src, or export that path on the server"),
    (
        ("protocol not supported", "requested nfs version"),
        "enable that version on the server, or set vers to a supported one",
    ),
    (("invalid", "incorrect mount option", "bad option"), "correct options (see nfs(5))"),
    (
        ("timed out", "refused", "no route", "unreachable", "did not answer"),
        "start the NFS server; open TCP port 2049 for this host in its firewall",
    ),
)


def place_state(
    entry: Mapping[str, Any], mounts: Sequence[Mount], addresses: Sequence[str] = ()
) -> tuple[str, Fault | None]:
    """Return the state of a mount point (`mounted`, `waiting` for an automount, `free` or `taken`) and its fault.

    Args:
        entry: `type`, `src` and `path`.
        mounts: all mounts of the host.
        addresses: addresses of the declared server.
    """
    path = str(entry["path"])
    here = mounts_at(path, mounts)
    if here and here[-1]["fstype"] == "autofs":
        return "waiting", None
    if here and is_same_mount(entry, here[-1], addresses):
        return "mounted", None
    if here:
        problem = f"wrong mount (found {here[-1]['source']}, {here[-1]['fstype']}; expected {entry['src']})"
        return "taken", (problem, f"unmount it (umount {path}) and remove it from /etc/fstab, or choose another path")
    inside = [mount["path"] for mount in mounts_below(path, mounts)]
    if inside:
        problem = f"the mount would hide other mounts: {_some(inside)}"
        return "taken", (problem, "unmount them first, or choose another path")
    return "free", None


def bound_state(path: str, mounts: Sequence[Mount]) -> tuple[str, Fault | None]:
    """Return `mounted` if the path or a parent other than / is a mount point, otherwise `taken` and the fault."""
    if any(mount["path"] != "/" and lies_in(path, mount["path"]) for mount in mounts):
        return "mounted", None
    problem = "storage_backend is bind, but nothing is mounted there"
    return "taken", (problem, "bind-mount the shared directory there before the run, or set storage_backend: nfs")


def content_fault(path: str, names: Sequence[str]) -> Fault | None:
    """Return why nothing may be mounted over a directory with this content, or None if it is empty."""
    if not names:
        return None
    if path.rstrip("/") == _HOMES:
        problem = f"contains home directories in use, which the mount would hide: {_some(sorted(names))}"
        remedy = (
            "keep /home local and mount elsewhere, with users_home_base below it (path: /shared, users_home_base: "
            "/shared/home); or copy the homes to the server, give the user that Ansible logs in as a home outside "
            "/home, and empty /home"
        )
        return problem, remedy
    problem = f"is not empty, and the mount would hide its contents: {_some(sorted(names))}"
    return problem, f"move the contents to the server or elsewhere (mv {path} {path}.local), or choose another path"


def busy_fault(holders: Sequence[Mapping[str, Any]]) -> Fault | None:
    """Return why nothing can be mounted over a path that these processes (`pid`, `command`) use, or None."""
    if not holders:
        return None
    named = [f"{holder['command']} (pid {holder['pid']})" for holder in holders]
    return f"is in use by {_some(named)}", "end these processes, or change their directory"


def kernel_fault(kind: str, release: str) -> Fault:
    """Return the fault that a kernel release lacks the module of a storage type, with the remedy."""
    wanted = STORAGE_TYPES[kind]
    problem = f"the kernel {release} has no module {wanted.module}"
    if kind == "nfs":
        remedy = "install the modules of that kernel; in a container, bind-mount the tree with storage_backend: bind"
        return problem, remedy
    return problem, f"install {wanted.origin}"


def trial_fault(source: str, text: str) -> Fault:
    """Return why a trial mount failed, and the remedy.

    Args:
        source: source of the mount.
        text: output of mount.
    """
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    detail = lines[-1] if lines else "no reason given"
    lower = text.lower()
    remedy = next((remedy for signs, remedy in KNOWN_FAILURES if any(sign in lower for sign in signs)), None)
    return f"{source} cannot be mounted: {detail}", remedy or "check the server's log and dmesg on this host"


def _some(names: Iterable[str]) -> str:
    every = list(names)
    more = f" and {len(every) - _SHOWN} more" if len(every) > _SHOWN else ""
    return ", ".join(every[:_SHOWN]) + more
