"""First contact with many hosts at once: install a public key where only a password opens the door."""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import logging
import shlex
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import paramiko

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

__all__ = ["Door", "KnownHosts", "Outcome", "Target", "bootstrap", "fingerprint"]

TIMEOUT_S = 15
# The key comes on standard input. A last line without its end would swallow a key that is simply appended.
INSTALL_KEY = r"""
umask 077
read -r key
mkdir -p "$HOME/.ssh" && cd "$HOME/.ssh" || exit 1
if grep -qxF -e "$key" authorized_keys 2>/dev/null; then echo present; exit 0; fi
if [ -s authorized_keys ] && [ -n "$(tail -c 1 authorized_keys)" ]; then echo >> authorized_keys || exit 1; fi
printf '%s\n' "$key" >> authorized_keys || exit 1
if command -v restorecon >/dev/null 2>&1; then restorecon -R "$HOME/.ssh" 2>/dev/null; fi
echo added
"""
INSTALL_SUDO = r"""
file=/etc/sudoers.d/busbar-bootstrap-{user}
rule='{user} ALL=(ALL:ALL) NOPASSWD: ALL'
if [ "$(cat "$file" 2>/dev/null)" = "$rule" ]; then echo present; exit 0; fi
new=$(mktemp) && printf '%s\n' "$rule" > "$new" && chmod 0440 "$new" && visudo -cqf "$new" \
  && mv "$new" "$file" && chown root:root "$file" && echo added
"""


@dataclasses.dataclass(frozen=True)
class Target:
    """A host of the inventory: its name, and where and as whom to log in."""

    name: str
    address: str
    port: int
    user: str

    @property
    def known_as(self) -> str:
        """Its name in a known_hosts file."""
        return self.address if self.port == paramiko.config.SSH_PORT else f"[{self.address}]:{self.port}"


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What became of a host; `ok` tells whether its door is open now."""

    name: str
    ok: bool
    message: str
    remedy: str = ""
    fingerprint: str = ""


class UnknownKeyError(Exception):
    """A host that was never met, where only known ones are allowed."""


def fingerprint(key: paramiko.PKey) -> str:
    """Return type and SHA256 fingerprint of a key, as ssh-keygen writes them."""
    digest = base64.b64encode(hashlib.sha256(key.asbytes()).digest()).decode().rstrip("=")
    return f"{key.get_name()} SHA256:{digest}"


class KnownHosts(paramiko.MissingHostKeyPolicy):
    """The host keys that are trusted: first contact is recorded, a changed key is refused.

    Lines of the file that are not plain keys, such as those of an authority, are left alone.
    """

    def __init__(self, path: Path, *, accept_new: bool = True) -> None:
        """Read the file, which need not exist.

        Raises:
            OSError: when it is there and cannot be read.
        """
        self.path = path
        self.accept_new = accept_new
        self.keys = paramiko.HostKeys()
        self.fresh: dict[str, str] = {}
        self._lock = threading.Lock()
        if path.exists():
            lines = [line for line in path.read_text().splitlines() if not line.lstrip().startswith(("@", "#"))]
            for number, line in enumerate(filter(None, lines)):
                entry = paramiko.hostkeys.HostKeyEntry.from_line(line, number)
                if entry is not None:
                    for name in entry.hostnames:
                        self.keys.add(name, entry.key.get_name(), entry.key)

    def missing_host_key(self, client: paramiko.SSHClient, hostname: str, key: paramiko.PKey) -> None:  # noqa: ARG002
        """Record a host's key at first contact, or refuse the host.

        Raises:
            paramiko.BadHostKeyException: when another host of the same address was quicker and showed another key.
            UnknownKeyError: when only known hosts are allowed.
        """
        with self._lock:
            known = self.keys.lookup(hostname)
            expected = known.get(key.get_name()) if known else None
            if expected == key:
                return
            if expected is not None:
                raise paramiko.BadHostKeyException(hostname, key, expected)
            if not self.accept_new:
                raise UnknownKeyError(fingerprint(key))
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with self.path.open("a") as stream:
                stream.write(f"{hostname} {key.get_name()} {key.get_base64()}\n")
            self.keys.add(hostname, key.get_name(), key)
            self.fresh[hostname] = fingerprint(key)


@dataclasses.dataclass(frozen=True)
class Door:
    """What opens a host: the public key to install, its private half when it is at hand, and the known hosts."""

    public_key: str
    private_key: Path | None
    known_hosts: KnownHosts
    sudo: bool = False

    def connect(self, target: Target, password: str | None) -> paramiko.SSHClient:
        """Return a connection, by the key when no password is given.

        Raises:
            OSError: when the host does not answer.
            paramiko.SSHException: when it does not let us in.
        """
        client = paramiko.SSHClient()
        for kind, key in (self.known_hosts.keys.lookup(target.known_as) or {}).items():
            client.get_host_keys().add(target.known_as, kind, key)
        client.set_missing_host_key_policy(self.known_hosts)
        with_key = password is None
        try:
            client.connect(
                target.address,
                port=target.port,
                username=target.user,
                password=password,
                key_filename=str(self.private_key) if with_key and self.private_key else None,
                allow_agent=with_key,
                look_for_keys=False,
                timeout=TIMEOUT_S,
                banner_timeout=TIMEOUT_S,
                auth_timeout=TIMEOUT_S,
            )
        except BaseException:
            client.close()
            raise
        return client


def bootstrap(targets: Sequence[Target], door: Door, ask: Callable[[], str], jobs: int) -> list[Outcome]:
    """Open every door with the key, and those that stay shut with a password; return what became of each host.

    Args:
        targets: the hosts.
        door: what opens them.
        ask: returns the password; called at most once, and only when some host needs it.
        jobs: how many hosts at once.
    """
    logging.getLogger("paramiko").setLevel(logging.CRITICAL)
    with ThreadPoolExecutor(max_workers=jobs) as pool:
        first = list(pool.map(lambda target: _visit(target, door, None), targets))
        shut = [target for target, outcome in zip(targets, first, strict=True) if outcome is None]
        if shut:
            password = ask()
            second = dict(zip(shut, pool.map(lambda target: _visit(target, door, password), shut), strict=True))
    return [
        outcome or second[target] or Outcome(target.name, ok=False, message="the password is wrong")
        for target, outcome in zip(targets, first, strict=True)
    ]


def _visit(target: Target, door: Door, password: str | None) -> Outcome | None:
    """Return what became of a host, or None when it does not let us in."""
    try:
        with door.connect(target, password) as client:
            return _open(client, target, door, password)
    except paramiko.AuthenticationException:
        return None
    except (paramiko.SSHException, UnknownKeyError, OSError, EOFError) as exc:
        # Without any key at hand there is nothing to try before the password.
        if password is None and "No authentication methods available" in str(exc):
            return None
        message, remedy = _explain(exc, target, door.known_hosts.path)
        return Outcome(target.name, ok=False, message=message, remedy=remedy)


def _explain(exc: Exception, target: Target, known_hosts: Path) -> tuple[str, str]:
    """Return what went wrong and what to do about it."""
    change = f"ask its owner; when the change is right: ssh-keygen -f {known_hosts} -R {target.known_as}"
    # Since OpenSSH 9.8 a server turns away for a while who failed to log in several times.
    waiting = "after failed logins it turns you away for a while: try again in a minute"
    reasons: list[tuple[type[Exception], str, str]] = [
        (paramiko.BadHostKeyException, "shows another host key than the one recorded", change),
        (UnknownKeyError, "is not among the known hosts", "leave out --known-only, or record its key first"),
        (paramiko.ssh_exception.NoValidConnectionsError, "refuses the connection", "start its SSH server"),
        (EOFError, "closes the connection", waiting),
        (TimeoutError, "does not answer", "check its address, power and network"),
        (socket.gaierror, "has a name without an address", "set ansible_host in the inventory"),
    ]
    if "protocol banner" in str(exc):
        exc = EOFError()
    for kind, message, remedy in reasons:
        if isinstance(exc, kind):
            return message, remedy
    return f"fails: {str(exc) or type(exc).__name__}", ""


def _open(client: paramiko.SSHClient, target: Target, door: Door, password: str | None) -> Outcome:
    """Return what became of a host that let us in: its key installed, and the rule for sudo where it is wanted."""
    found = door.known_hosts.fresh.get(target.known_as, "")

    def outcome(message: str, *, ok: bool = True) -> Outcome:
        return Outcome(target.name, ok, message, fingerprint=found)

    status, said = _run(client, f"sh -c {shlex.quote(INSTALL_KEY)}", f"{door.public_key}\n")
    if status != 0:
        return outcome(f"does not take the key: {said}", ok=False)
    done = ["key installed" if said == "added" else "key was there"]
    if door.sudo and target.user != "root":
        script = shlex.quote(INSTALL_SUDO.format(user=target.user))
        # With a password sudo reads it from standard input; without one it must not ask.
        command = f"sudo -S -p '' sh -c {script}" if password else f"sudo -n sh -c {script}"
        status, said = _run(client, command, f"{password}\n" if password else "")
        if status != 0:
            return outcome(f"{done[0]}, but sudo fails: {said}", ok=False)
        done.append("sudo rule installed" if said.endswith("added") else "sudo rule was there")
    if password is not None and door.private_key is not None:
        try:
            door.connect(target, None).close()
        except (paramiko.SSHException, OSError):
            return outcome(f"{done[0]}, but it does not open the door", ok=False)
    return outcome(", ".join(done))


def _run(client: paramiko.SSHClient, command: str, text: str) -> tuple[int, str]:
    """Return the exit status of a command on the host and the last line that it said."""
    stdin, stdout, stderr = client.exec_command(command, timeout=TIMEOUT_S)
    stdin.write(text)
    stdin.channel.shutdown_write()
    said = stdout.read().decode(errors="replace") or stderr.read().decode(errors="replace")
    return stdout.channel.recv_exit_status(), (said.strip().splitlines() or ["no message"])[-1]
