"""Installs a public key on many hosts in parallel, with a password if the key does not work yet."""

from __future__ import annotations

import dataclasses
import logging
import shlex
import socket
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import paramiko
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.common.printable import printable

from busbar.ssh.host_keys import (
    TIMEOUT_S,
    KnownHosts,
    RefusedKeyError,
    Target,
    connection_to,
    fingerprint,
    read_host_key,
    tunnel,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

_AT_ONCE = 64

# The key is read from standard input. A missing line break at the end of authorized_keys is added, because otherwise
# the key would become part of the last line.
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
class Outcome:
    """The result for a host; `ok` is true if the host accepts the key."""

    name: str
    ok: bool
    message: str
    remedy: str = ""


@dataclasses.dataclass(frozen=True)
class Login:
    """How to log in: the public key to install, its private key if available, the known hosts and the jump hosts."""

    public_key: str
    private_key: Path | None
    known_hosts: KnownHosts
    sudo: bool = False
    proxy_commands: dict[Target, str] = dataclasses.field(default_factory=dict)

    def proxy_command(self, target: Target) -> str:
        """Return the proxy command through the jump host of a host, or an empty string for a direct connection."""
        if target not in self.proxy_commands:
            key = ["-i", str(self.private_key)] if self.private_key else []
            self.proxy_commands[target] = tunnel(target, *key, "-o", f"UserKnownHostsFile={self.known_hosts.path}")
        return self.proxy_commands[target]

    def connect(self, target: Target, password: str | None) -> paramiko.SSHClient:
        """Return an authenticated connection, with the key if no password is given.

        Raises:
            OSError: the host does not answer.
            paramiko.SSHException: the login fails.
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
                sock=connection_to(target, self.proxy_command(target)) if self.proxy_command(target) else None,
            )
        except BaseException:
            client.close()
            raise
        return client


def bootstrap(
    targets: Sequence[Target],
    login: Login,
    confirm_keys: Callable[[Mapping[Target, str]], Mapping[Target, str]],
    ask: Callable[[], str],
) -> list[Outcome]:
    """Log in to all hosts with the key, or with a password to install the key, and return the result of each host.

    Nothing is sent to a host before its host key is known or confirmed.

    Args:
        targets: the hosts.
        login: the key and the known hosts.
        confirm_keys: receives the fingerprints of unknown host keys, and returns the reason for each refused host.
        ask: returns the password; called at most once, and only if a host needs it.
    """
    logging.getLogger("paramiko").setLevel(logging.CRITICAL)
    passwords: list[str] = []

    def ask_once() -> str:
        if not passwords:
            passwords.append(ask())
        return passwords[0]

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        proxy_commands = dict(zip(targets, pool.map(login.proxy_command, targets)))
        outcomes: dict[Target, Outcome] = {}
        # Jump hosts come first, because connections to the hosts behind them require a login.
        for behind in (False, True):
            group = [target for target in targets if bool(proxy_commands[target]) is behind]
            outcomes |= _bootstrap_group(group, login, confirm_keys, ask_once, pool)
    wrong = "wrong password"
    return [outcomes.get(target) or Outcome(target.name, ok=False, message=wrong) for target in targets]


def _bootstrap_group(
    targets: Sequence[Target],
    login: Login,
    confirm_keys: Callable[[Mapping[Target, str]], Mapping[Target, str]],
    ask: Callable[[], str],
    pool: ThreadPoolExecutor,
) -> dict[Target, Outcome]:
    """Return the result of each host in a group, except hosts that reject the password."""
    outcomes = _check_host_keys(targets, login, confirm_keys, pool)

    def bootstrap_all(password: str | None) -> None:
        left = [target for target in targets if target not in outcomes]
        answers = pool.map(lambda target: _bootstrap_host(target, login, password), left)
        outcomes.update({target: found for target, found in zip(left, answers) if found})

    bootstrap_all(None)
    if len(outcomes) < len(targets):
        bootstrap_all(ask())
    return outcomes


def _check_host_keys(
    targets: Sequence[Target],
    login: Login,
    confirm_keys: Callable[[Mapping[Target, str]], Mapping[Target, str]],
    pool: ThreadPoolExecutor,
) -> dict[Target, Outcome]:
    """Read all host keys, record the confirmed ones, and return a result for each host whose key was not accepted."""
    known = login.known_hosts

    def look(target: Target) -> paramiko.PKey | Outcome | None:
        try:
            key = read_host_key(target, known.keys.lookup(target.known_as) or {}, login.proxy_command(target))
            return None if known.is_known(target, key) else key
        except (paramiko.SSHException, RefusedKeyError, OSError, EOFError) as exc:
            return _failure(target, exc, login)

    found = dict(zip(targets, pool.map(look, targets)))
    fresh = {target: key for target, key in found.items() if isinstance(key, paramiko.PKey)}
    refused = confirm_keys({target: fingerprint(key) for target, key in fresh.items()}) if fresh else {}
    for target, key in fresh.items():
        if target not in refused:
            known.record(target, key)
    left_out = {target: outcome for target, outcome in found.items() if isinstance(outcome, Outcome)}
    return left_out | {target: Outcome(target.name, ok=False, message=why) for target, why in refused.items()}


def _bootstrap_host(target: Target, login: Login, password: str | None) -> Outcome | None:
    """Return the result of a host, or None if it rejects the login."""
    try:
        with login.connect(target, password) as client:
            return _install(client, target, login, password)
    except paramiko.AuthenticationException:
        return None
    except (paramiko.SSHException, RefusedKeyError, OSError, EOFError) as exc:
        # Without a private key, paramiko reports this instead of a rejected login.
        if password is None and "No authentication methods available" in str(exc):
            return None
        return _failure(target, exc, login)


def _failure(target: Target, exc: Exception, login: Login) -> Outcome:
    """Return the result for a host whose connection failed."""
    message, remedy = _explain(exc)
    if login.proxy_command(target) and not isinstance(exc, RefusedKeyError):
        message, remedy = "is unreachable through its jump host", f"check the output of: {login.proxy_command(target)}"
    return Outcome(target.name, ok=False, message=message, remedy=remedy)


def _explain(exc: Exception) -> tuple[str, str]:
    """Return problem and remedy for an exception."""
    if isinstance(exc, RefusedKeyError):
        return exc.message, exc.remedy
    # Since OpenSSH 9.8 a server temporarily rejects clients after several failed logins.
    blocked = "the SSH server may block logins after failures: try again in a minute"
    changed = "changed its host key during this run"
    reasons: list[tuple[type[Exception], str, str]] = [
        (
            paramiko.BadHostKeyException,
            changed,
            "the connection may be intercepted: find the cause before you try again",
        ),
        (ConnectionRefusedError, "refuses the connection", "start its SSH server"),
        (paramiko.ssh_exception.NoValidConnectionsError, "refuses the connection", "start its SSH server"),
        (EOFError, "closes the connection", blocked),
        (TimeoutError, f"does not answer within {TIMEOUT_S} s", "check address, power and network of the host"),
        (socket.gaierror, "has a name that cannot be resolved", "set ansible_host in the inventory"),
    ]
    if "protocol banner" in str(exc):
        exc = EOFError()
    for kind, message, remedy in reasons:
        if isinstance(exc, kind):
            return message, remedy
    return f"the connection fails: {printable(exc) or type(exc).__name__}", ""


def _install(client: paramiko.SSHClient, target: Target, login: Login, password: str | None) -> Outcome:
    """Install the key, and the sudo rule if requested, over a connection, and return the result."""

    def outcome(message: str, *, ok: bool = True) -> Outcome:
        return Outcome(target.name, ok, message)

    status, output = _run(client, f"sh -c {shlex.quote(INSTALL_KEY)}", f"{login.public_key}\n")
    if status != 0:
        return outcome(f"rejects the key: {output}", ok=False)
    done = ["key installed" if output == "added" else "key already present"]
    if login.sudo and target.user != "root":
        script = shlex.quote(INSTALL_SUDO.format(user=target.user))
        # sudo reads a password from standard input; without a password it must not prompt.
        command = f"sudo -S -p '' sh -c {script}" if password else f"sudo -n sh -c {script}"
        status, output = _run(client, command, f"{password}\n" if password else "")
        if status != 0:
            return outcome(f"{done[0]}, but sudo fails: {output}", ok=False)
        done.append("sudo rule installed" if output.endswith("added") else "sudo rule already present")
    if password is not None and login.private_key is not None:
        try:
            login.connect(target, None).close()
        except (paramiko.SSHException, OSError):
            return outcome(f"{done[0]}, but the host rejects logins with it", ok=False)
    return outcome(", ".join(done))


def _run(client: paramiko.SSHClient, command: str, text: str) -> tuple[int, str]:
    """Run a command on the host and return its exit status and last output line."""
    stdin, stdout, stderr = client.exec_command(command, timeout=TIMEOUT_S)
    stdin.write(text)
    stdin.channel.shutdown_write()
    output = stdout.read().decode(errors="replace") or stderr.read().decode(errors="replace")
    return stdout.channel.recv_exit_status(), printable((output.strip().splitlines() or ["no message"])[-1])
