"""Check the mounts of a host without hanging on unreachable servers.

Mounts are read from /proc/self/mountinfo; every server request and every directory access has a time limit. Trial
mounts are read-only, in a private mount namespace that disappears with its process.
"""

from __future__ import annotations

import concurrent.futures
import os
import platform
import tempfile
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..common.call_timeout import bounded
from ..common.problems import make_problem
from .file_servers import addresses, server_fault
from .mount_faults import bound_state, busy_fault, content_fault, kernel_fault, place_state, trial_fault
from .mounts import STORAGE_TYPES, endpoints, kernel_offers, lies_in, on_network, option, parse_mountinfo, trial_options

if TYPE_CHECKING:
    from ansible.module_utils.basic import AnsibleModule

__all__ = ["PROC", "MountCheck", "holders", "read"]

ACCESS_TIMEOUT_S = 5


class MountCheck:
    """Checks the mounts of a host, and collects their states and problems."""

    def __init__(self, module: AnsibleModule, host: str, key: str, timeout_s: int = 20) -> None:
        """Read the mounts and the kernel's file systems.

        Args:
            module: the running module.
            host: name of the host in problem messages.
            key: name of the variable that declares the mounts.
            timeout_s: seconds to wait for a server.
        """
        self.module, self.host, self.key, self.timeout_s = module, host, key, timeout_s
        self.mounts = parse_mountinfo(read(PROC / "self" / "mountinfo"))
        self.release = platform.release()
        self.filesystems = read(PROC / "filesystems")
        modules = Path("/lib/modules") / self.release
        self.modules = [read(modules / name) for name in ("modules.dep", "modules.builtin")]
        self.problems: list[dict[str, Any]] = []
        self.states: dict[str, str] = {}

    def has(self, name: str) -> bool:
        """Return whether the kernel has a module."""
        return kernel_offers(name, self.filesystems, self.modules)

    def record_fault(self, entry: dict[str, Any], fault: tuple[str, str] | None, about: str = "place") -> bool:
        """Record a mount's fault, if any, with its subject; return whether the mount has a fault."""
        if fault:
            key = f"{self.key}[{entry['path']}]"
            self.problems.append({**make_problem([self.host], key, *fault), "about": about})
        return fault is not None

    def check_bound(self, paths: list[str]) -> None:
        """Check shared directories that are bind-mounted from outside the host, such as into a container."""
        for path in paths:
            self.states[path], fault = bound_state(path, self.mounts)
            self.record_fault({"path": path}, fault)

    def check(self, mounts: list[dict[str, Any]], *, client_ready: bool) -> None:
        """Check every mount point, then the servers, then the mounts and the client.

        Args:
            mounts: each with `type`, `src`, `path` and `options`.
            client_ready: whether the client software must be installed; if so, NFS mounts are tried.
        """
        known = self.resolve(mounts)
        good = []
        for entry in mounts:
            state, fault = place_state(entry, self.mounts, known.get(self.server(entry), []))
            if state == "free":
                fault = self.place_fault(entry["path"])
            self.states[entry["path"]] = state
            if not self.record_fault(entry, fault):
                good.append(entry)
        silent = self.ask_servers(good)
        for entry in good:
            if endpoints_key(entry) in silent:
                continue
            if self.states[entry["path"]] == "free":
                self.record_fault(entry, self.client_fault(entry, ready=client_ready), "client")
            elif self.states[entry["path"]] == "mounted":
                self.record_fault(entry, self.stale_fault(entry["path"]))

    def resolve(self, mounts: list[dict[str, Any]]) -> dict[str, list[str]]:
        """Return the addresses of the NFS servers by name."""
        known = {}
        for name in {self.server(entry) for entry in mounts} - {""}:
            with suppress(OSError):
                known[name] = bounded(partial(addresses, name), ACCESS_TIMEOUT_S)
        return known

    @staticmethod
    def server(entry: dict[str, Any]) -> str:
        """Return the NFS server of a mount, or '' for other storage."""
        return endpoints(entry)[0][0] if entry["type"] == "nfs" else ""

    def place_fault(self, path: str) -> tuple[str, str] | None:
        """Return the problem with a path on which nothing is mounted yet, or None."""
        place = Path(path)

        def content() -> list[str] | str:
            if place.is_symlink():
                return f"is a link to {place.readlink()}"
            if place.exists() and not place.is_dir():
                return "is not a directory"
            return sorted(os.listdir(place)) if place.exists() else []  # noqa: PTH208 - returns strings

        try:
            found = bounded(content, ACCESS_TIMEOUT_S)
        except OSError as exc:
            reason = "the file server of a parent mount does not answer" if on_network(path, self.mounts) else str(exc)
            return f"cannot be read: {reason}", "restore or unmount the parent mount"
        if isinstance(found, str):
            return found, "remove it, or choose another path"
        return content_fault(path, found) or busy_fault(holders(path))

    def stale_fault(self, path: str) -> tuple[str, str] | None:
        """Return the problem with an existing but unusable mount, or None."""
        try:
            bounded(partial(os.statvfs, path), 2 * ACCESS_TIMEOUT_S)
        except OSError as exc:
            return f"is mounted, but cannot be used: {exc}", f"restore the server; if it is running: umount -l {path}"
        return None

    def ask_servers(self, entries: list[dict[str, Any]]) -> set[Any]:
        """Query all servers in parallel, record the failing mounts, and return the failing servers."""
        queried = {endpoints_key(entry): entry for entry in entries if endpoints(entry)}
        with concurrent.futures.ThreadPoolExecutor(max(1, len(queried))) as pool:
            waiting = {key: pool.submit(server_fault, list(key[0]), key[1], self.timeout_s) for key in queried}
            faults = {key: future.result() for key, future in waiting.items()}
        remedy = "start the server, correct src, and open that port in the firewalls between this host and the server"
        for entry in entries:
            fault = faults.get(endpoints_key(entry))
            self.record_fault(entry, (fault, remedy) if fault else None, "server")
        return {key for key, fault in faults.items() if fault}

    def client_fault(self, entry: dict[str, Any], *, ready: bool) -> tuple[str, str] | None:
        """Return a missing client requirement of a mount, or why a trial mount fails, or None."""
        kind = STORAGE_TYPES[entry["type"]]
        helper = self.module.get_bin_path(kind.helper, opt_dirs=["/sbin", "/usr/sbin"]) if kind.helper else "none"
        if ready and not helper:
            return f"{kind.helper} not found: the client is not installed", f"install {kind.origin}"
        if (ready or entry["type"] == "nfs") and not self.has(kind.module):
            return kernel_fault(entry["type"], self.release)
        return self.trial_mount(entry) if ready and entry["type"] == "nfs" else None

    def trial_mount(self, entry: dict[str, Any]) -> tuple[str, str] | None:
        """Return why a trial NFS mount in a private namespace fails, or None."""
        limit = max(ACCESS_TIMEOUT_S, self.timeout_s)
        with tempfile.TemporaryDirectory(prefix="busbar-mount-") as folder:
            mount = ["mount", "-t", "nfs", "-o", trial_options(entry["options"]), entry["src"], folder]
            command = ["timeout", "-k", "2", str(limit), "unshare", "--mount", "--propagation", "private", *mount]
            status, out, err = self.module.run_command(command, environ_update={"LC_ALL": "C.UTF-8"})
        if status in {124, 137}:
            return trial_fault(entry["src"], f"the server did not answer within {limit} s")
        return trial_fault(entry["src"], err or out) if status else None


def endpoints_key(entry: dict[str, Any]) -> tuple[Any, ...]:
    """Return the servers of a mount and the NFS version to query (None for other storage)."""
    version = None
    if entry["type"] == "nfs":
        version = int((option(entry["options"], "vers", "nfsvers") or "4").partition(".")[0])
    return tuple(endpoints(entry)), version


PROC = Path("/proc")


def read(path: Path) -> str:
    """Return the text of a file, or '' if it cannot be read."""
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


def holders(path: str, proc: Path = PROC) -> list[dict[str, Any]]:
    """Return `pid` and `command` of processes with working directory, root or open files below a path."""
    found = []
    for process in sorted(proc.glob("[0-9]*"), key=lambda entry: int(entry.name)):
        if int(process.name) == os.getpid():
            continue
        links = [process / "cwd", process / "root"]
        with suppress(OSError):
            links += list((process / "fd").iterdir())
        if any(lies_in(_target(link), path) for link in links):
            found.append({"pid": int(process.name), "command": read(process / "comm").strip()})
    return found


def _target(link: Path) -> str:
    """Return the target of a link in /proc, or '' if it is gone."""
    try:
        return str(link.readlink())
    except OSError:
        return ""
