"""Validate registry credentials, and format them as Enroot's credentials files.

Source: Enroot 4.1.2. src/docker.sh, _authenticate: a line of the file matches if its machine is the registry without
port and its login is the user; then curl reads the file as netrc and uses the first line for the host that issues
tokens. _parse_uri: all names of Docker Hub are equivalent. src/common.sh, evalnetrc: if the sixth word of a line
begins with $, the user's shell evaluates the rest of the line. doc/cmd/import.md: nvcr.io also needs authn.nvidia.com.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from ..common.problems import make_problem

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["credential_faults", "credential_files", "credential_texts", "is_evaluated", "with_token_hosts"]

# Hosts that issue tokens for a registry with another name.
_TOKENS = {"nvcr.io": "authn.nvidia.com", "registry-1.docker.io": "auth.docker.io"}
_DOCKER_HUB = frozenset({"docker.io", "index.docker.io", "hub.docker.com"})
_WORD = re.compile(r"\S+")
_MACHINE = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?")
_WITH_PORT = re.compile(r"(?P<name>[A-Za-z0-9.-]+):(?P<port>\d{1,5})")
_EVALUATED = re.compile(r"\$\(.+\)")
_MOST_PORT = 65535


def is_evaluated(password: object) -> bool:
    """Return whether the user's shell evaluates a password, as in ``$(aws ecr get-login-password)``."""
    return bool(_EVALUATED.fullmatch(str(password)))


def credential_faults(credentials: Sequence[Mapping[str, Any]]) -> list[tuple[str, str]]:
    """Return the errors in credentials, each with its remedy and without secrets.

    Args:
        credentials: items with `user`, `machine`, `login`, `password` and optionally `port`.
    """
    faults = []
    seen: set[tuple[str, str]] = set()
    for number, item in enumerate(credentials, start=1):
        faults += [(f"item {number} {fault}", remedy) for fault, remedy in _faults(item)]
        owner = (str(item.get("user")), str(item.get("machine")).lower())
        if owner in seen:
            fault = f"item {number} is a second login of {owner[0]} for {owner[1]}, but Enroot only uses the first"
            faults.append((fault, "keep one of them"))
        seen.add(owner)
    return faults


def _faults(item: Mapping[str, Any]) -> list[tuple[str, str]]:
    password = str(item.get("password") or "")
    words = {key: str(item.get(key) or "") for key in ("user", "machine", "login")}
    words["password"] = "evaluated" if is_evaluated(password) and "\n" not in password else password
    missing = [key for key, word in words.items() if not _WORD.fullmatch(word)]
    if missing:
        return [(f"has no valid {', '.join(missing)}", "set user, machine, login and password without spaces")]
    faults = []
    machine, port = words["machine"], item.get("port")
    if with_port := _WITH_PORT.fullmatch(machine):
        problem = f"has machine {machine}, but Enroot looks up the name without the port"
        faults.append((problem, f"write machine: {with_port['name']}, port: {with_port['port']}"))
    elif machine in _DOCKER_HUB:
        faults.append((f"has machine {machine}, which Enroot calls registry-1.docker.io", "write registry-1.docker.io"))
    elif not _MACHINE.fullmatch(machine):
        problem = f"has machine {machine!r}, which is not a host name"
        faults.append((problem, "write only the host name, without https:// and path"))
    if port is not None and not (str(port).isdecimal() and 0 < int(port) <= _MOST_PORT):
        faults.append((f"has the port {port!r}", f"set a number from 1 to {_MOST_PORT}, or remove it"))
    if password.startswith("$") and words["password"] is password:
        remedy = "create another password, or write $(printf %s '…') with the password for …"
        faults.append(("has a password that begins with $, which Enroot passes to a shell", remedy))
    return faults


def with_token_hosts(credentials: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the credentials, with an additional entry for each separate token host of a registry.

    Without it curl sends no login to that host. A user's explicit entry for the host is kept.
    """
    given = {(item["user"], item["machine"]) for item in credentials}
    found: list[Mapping[str, Any]] = []
    for item in credentials:
        found.append(item)
        tokens = _TOKENS.get(item["machine"])
        if tokens and (item["user"], tokens) not in given:
            found.append({**item, "machine": tokens, "port": None})
    return found


def credential_texts(credentials: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Return the text of each user's credentials file in netrc format."""
    texts: dict[str, str] = {}
    for item in with_token_hosts(credentials):
        line = f"machine {item['machine']} login {item['login']} password {item['password']}\n"
        texts[item["user"]] = texts.get(item["user"], "") + line
    return texts


def credential_files(
    credentials: Sequence[Mapping[str, Any]], directory: str, kept: Sequence[str] = ()
) -> dict[str, list[Any]]:
    """Return the errors in the credentials, and the credentials files, each readable only by its user.

    Args:
        credentials: items with `user`, `machine`, `login`, `password` and optionally `port`.
        directory: parent of the users' directories.
        kept: users who have a file now.

    Returns:
        `problems` without secrets; `files` for the `templates` module, empty if there are problems.
    """
    faults = credential_faults(credentials)
    if faults:
        return {"problems": [make_problem([], "enroot_credentials", *fault) for fault in faults], "files": []}
    texts = credential_texts(credentials)
    present = [
        {"path": f"{directory}/{user}/.credentials", "content": text, "owner": user, "group": "root", "mode": "0600"}
        for user, text in texts.items()
    ]
    gone = [{"path": f"{directory}/{user}/.credentials", "state": "absent"} for user in kept if user not in texts]
    return {"problems": [], "files": present + gone}
