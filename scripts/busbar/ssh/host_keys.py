"""Reads the host keys of new hosts without a login, and records confirmed keys in a known_hosts file."""

from __future__ import annotations

import base64
import contextlib
import dataclasses
import hashlib
import re
import shlex
import socket
import subprocess
import threading
from typing import TYPE_CHECKING

import paramiko

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

TIMEOUT_S = 15
_TOKEN = re.compile("%[hpr%]")


@dataclasses.dataclass(frozen=True)
class Target:
    """A host of the inventory: its name, address, login user and ssh arguments."""

    name: str
    address: str
    port: int
    user: str
    arguments: str = ""

    @property
    def known_as(self) -> str:
        """The host's name in known_hosts files."""
        return self.address if self.port == paramiko.config.SSH_PORT else f"[{self.address}]:{self.port}"


class RefusedKeyError(Exception):
    """A host key is revoked or has changed."""

    def __init__(self, message: str, remedy: str) -> None:
        """Store message and remedy."""
        super().__init__(message)
        self.message = message
        self.remedy = remedy


def fingerprint(key: paramiko.PKey) -> str:
    """Return type and SHA256 fingerprint of a key in the format of ssh-keygen."""
    digest = base64.b64encode(hashlib.sha256(key.asbytes()).digest()).decode().rstrip("=")
    return f"{key.get_name()} SHA256:{digest}"


class KnownHosts(paramiko.MissingHostKeyPolicy):
    """The trusted and revoked host keys.

    Lines with @cert-authority are ignored, because this class does not support certificates.
    """

    def __init__(self, path: Path, *others: Path) -> None:
        """Read the file, which may be missing, and the revoked keys of other files.

        Raises:
            OSError: a file exists and cannot be read.
        """
        self.path = path
        self.keys = paramiko.HostKeys()
        self.revoked: dict[bytes, str] = {}
        self._lock = threading.Lock()
        for file in (path, *others):
            if file.exists():
                self._read(file, trusted=file == path)

    def _read(self, file: Path, *, trusted: bool) -> None:
        for number, line in enumerate(file.read_text().splitlines(), start=1):
            words = line.split()
            mark = words[0] if words and words[0].startswith("@") else ""
            entry = _entry(line.removeprefix(mark).strip(), number)
            if entry is None or line.lstrip().startswith("#"):
                continue
            if mark == "@revoked":
                self.revoked[entry.key.asbytes()] = f"{file}, line {number}"
            elif not mark and trusted:
                for name in entry.hostnames or []:
                    self.keys.add(name, entry.key.get_name(), entry.key)

    def is_known(self, target: Target, key: paramiko.PKey) -> bool:
        """Return whether the key is recorded for a host; False if no key is recorded.

        Raises:
            RefusedKeyError: the key is revoked, or a different key is recorded.
        """
        if key.asbytes() in self.revoked:
            place = self.revoked[key.asbytes()]
            message = f"has a host key that is revoked in {place}: {fingerprint(key)}"
            remedy = (
                "the key may be compromised: create new host keys on the host (rm /etc/ssh/ssh_host_*, ssh-keygen -A)"
            )
            raise RefusedKeyError(message, remedy)
        entry = self.keys.lookup(target.known_as)
        recorded = entry.get(key.get_name()) if entry else None
        if recorded is not None and recorded != key:
            message = f"has the host key {fingerprint(key)} (expected {fingerprint(recorded)}, as in {self.path})"
            change = f"ssh-keygen -f {self.path} -R {target.known_as}"
            raise RefusedKeyError(message, f"ask the owner of the host; if the key was changed intentionally: {change}")
        return recorded is not None

    def record(self, target: Target, key: paramiko.PKey) -> None:
        """Append a host's key to the known_hosts file.

        Raises:
            OSError: the file cannot be written.
        """
        with self._lock:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with self.path.open("a") as stream:
                stream.write(f"{target.known_as} {key.get_name()} {key.get_base64()}\n")
            self.keys.add(target.known_as, key.get_name(), key)

    def missing_host_key(self, client: paramiko.SSHClient, hostname: str, key: paramiko.PKey) -> None:  # noqa: ARG002
        """Reject a host whose key differs from the key that it presented earlier in this run.

        Raises:
            RefusedKeyError: always.
        """
        message = f"{hostname} changed its host key during this run: {fingerprint(key)}"
        raise RefusedKeyError(message, "the connection may be intercepted: find the cause before you try again")


def _entry(line: str, number: int) -> paramiko.hostkeys.HostKeyEntry | None:
    try:
        return paramiko.hostkeys.HostKeyEntry.from_line(line, number)
    except (paramiko.hostkeys.InvalidHostKey, paramiko.SSHException):
        return None


def tunnel(target: Target, *options: str) -> str:
    """Return the proxy command through the jump host of a host, or an empty string for a direct connection.

    `ssh -G` determines the jump host from the target's arguments and the user's configuration.

    Args:
        target: the host.
        options: ssh options for the jump host.
    """
    command = ["ssh", "-G", *shlex.split(target.arguments), "-p", str(target.port), f"{target.user}@{target.address}"]
    output = subprocess.run(command, check=False, capture_output=True, text=True, stdin=subprocess.DEVNULL).stdout
    settings = dict(line.split(" ", 1) for line in output.splitlines() if " " in line)
    if "proxycommand" in settings:
        known = {"%h": target.address, "%p": str(target.port), "%r": target.user, "%%": "%"}
        return _TOKEN.sub(lambda found: known[found[0]], settings["proxycommand"])
    if settings.get("proxyjump", "none") == "none":
        return ""
    *before, last = settings["proxyjump"].split(",")
    through = ["-J", ",".join(before)] if before else []
    place = f"[{target.address}]:{target.port}"
    return shlex.join(["ssh", "-o", "BatchMode=yes", *options, *through, "-W", place, f"ssh://{last}"])


def connection_to(target: Target, way: str) -> socket.socket | paramiko.ProxyCommand:
    """Return a direct connection to a host, or one through the command of `tunnel`.

    Raises:
        OSError: the host does not answer.
    """
    if way:
        return paramiko.ProxyCommand(shlex.join(["sh", "-c", f"exec {way}"]))
    return socket.create_connection((target.address, target.port), timeout=TIMEOUT_S)


def read_host_key(target: Target, known_kinds: Iterable[str] = (), way: str = "") -> paramiko.PKey:
    """Return the host key that a host presents, without logging in.

    Args:
        target: the host.
        known_kinds: preferred key types.
        way: the proxy command; empty for a direct connection.

    Raises:
        OSError: the host does not answer.
        paramiko.SSHException: the host does not run a compatible SSH server.
    """
    with contextlib.closing(connection_to(target, way)) as connection:
        transport = paramiko.Transport(connection)
        try:
            transport.banner_timeout = TIMEOUT_S
            options = transport.get_security_options()
            wanted = [kind for kind in options.key_types if kind in set(known_kinds)]
            options.key_types = (*wanted, *(kind for kind in options.key_types if kind not in wanted))
            transport.start_client(timeout=TIMEOUT_S)
            return transport.get_remote_server_key()
        finally:
            transport.close()
