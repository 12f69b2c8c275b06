"""Validate declared users and groups, and find their conflicts with a host's accounts."""

from __future__ import annotations

import base64
import re
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from ..common.problems import Problem, make_problem
from .accounts import declared_groups, is_local, is_present

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    Items = Sequence[Mapping[str, Any]]

__all__ = [
    "KEY_TYPES",
    "account_conflicts",
    "account_problems",
    "checked_key",
    "home_conflicts",
    "key_fault",
    "removal_conflicts",
]

USERS, GROUPS = "users_accounts", "users_groups"
_NAME = re.compile(r"[a-z_][a-z0-9_-]{0,31}")
# A directory may have user names that useradd rejects.
_DIRECTORY_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@-]*")
# Keys that configure a local account.
_LOCAL = ("group", "groups", "comment", "shell", "home", "create_home", "password_hash", "locked")
# useradd would reject these values in the middle of a run, or store a plain password as a hash.
_FIELDS = {
    "home": (re.compile(r"/[^:\s]+"), "set an absolute path without spaces"),
    "shell": (re.compile(r"/[^:\s]+"), "set the absolute path of a program, such as /bin/bash"),
    "comment": (re.compile(r"[^:\n]*"), "remove colons and line breaks"),
    "password_hash": (re.compile(r"[$!*][^:\s]*"), "set the hash that `mkpasswd -m yescrypt` prints"),
}
_LARGEST = 2**32 - 2
_NOBODY = 65534
# UIDs below belong to accounts of the system.
_FIRST_USER = 1000


def account_problems(users: Items, groups: Items, known: Collection[str] | None = ()) -> list[Problem]:
    """Return the problems with the declaration that do not depend on a host.

    Args:
        users: items of users_accounts.
        groups: items of users_groups.
        known: names of the users without uid that exist on the hosts; None to accept any name, as for directory users.
    """
    every_group = declared_groups(users, groups)
    present = {group["name"] for group in every_group if is_present(group)}
    return [
        *_bad_entries([user for user in users if user.get("uid") is not None], USERS, "user", "uid"),
        *_bad_entries(groups, GROUPS, "group", "gid"),
        *(each for user in users if user.get("uid") is None for each in _bad_directory_user(user, known)),
        *_bad_fields(users),
        *_bad_keys(users),
        *_duplicates(users, USERS, "user", "uid"),
        *_duplicates(every_group, GROUPS, "group", "gid"),
        *(
            make_problem(
                [],
                USERS,
                f"group {user['group']} of user {user['name']} is not declared",
                "add it to users_groups with its GID",
            )
            for user in filter(is_local, users)
            if user.get("group") and user["group"] not in present
        ),
    ]


def account_conflicts(
    host: str, users: Items, groups: Items, passwd: Mapping[str, int], group_ids: Mapping[str, int]
) -> list[Problem]:
    """Return the conflicts between the declaration and a host.

    The declaration must pass account_problems.

    Args:
        host: name of the host.
        users: items with `name`, `uid`, and optionally `group`, `groups`, `state`.
        groups: items with `name`, `gid`, and optionally `state`.
        passwd: UID of every user name on the host.
        group_ids: GID of every group name on the host.
    """
    every_group = declared_groups(users, groups)
    known = {group["name"] for group in every_group if is_present(group)} | set(group_ids)
    return [
        *_host_conflicts(host, users, passwd, (USERS, "user", "uid")),
        *_host_conflicts(host, every_group, group_ids, (GROUPS, "group", "gid")),
        *(
            make_problem(
                [host],
                USERS,
                f"group {name} of user {user['name']} does not exist",
                "add it to users_groups with its GID, or remove it from the user",
            )
            for user in filter(is_local, users)
            for name in user.get("groups") or []
            if name not in known
        ),
    ]


def removal_conflicts(host: str, users: Items, active: Mapping[str, Sequence[str]]) -> list[Problem]:
    """Return why users cannot be removed yet.

    Args:
        host: name of the host.
        users: items of users_accounts.
        active: processes and jobs of each user, one sentence each, from the account_info module.
    """
    return [
        make_problem(
            [host],
            USERS,
            f"user {user['name']} cannot be removed yet (running: {', '.join(active[user['name']])}); "
            "no user was removed on any host",
            f"run again with -e users_removal_wait=3600 to wait for them, or end them (scancel --user={user['name']}; "
            f"loginctl terminate-user {user['name']})",
        )
        for user in users
        if not is_present(user) and active.get(user["name"])
    ]


def home_conflicts(host: str, removed: Iterable[tuple[str, str]], homes: Mapping[str, str]) -> list[Problem]:
    """Return the homes that would be deleted although another user has them.

    Args:
        host: name of the host.
        removed: name and home of each user who is removed with the home.
        homes: name of a remaining user by home.
    """
    return [
        make_problem(
            [host],
            f"{USERS}[{name}].remove_home",
            f"would delete {kept}, the home of {other}",
            f"delete remove_home from the entry of {name}",
        )
        for name, home in removed
        for kept, other in homes.items()
        if PurePosixPath(kept).is_relative_to(home)
    ]


def _bad_entries(items: Iterable[Mapping[str, Any]], option: str, kind: str, key: str) -> Iterable[Problem]:
    for item in items:
        name, number = str(item["name"]), item.get(key)
        if not _NAME.fullmatch(name) or name == "root":
            remedy = "use lowercase letters, digits, '_' and '-', starting with a letter or '_'; root is reserved"
            yield make_problem([], option, f"{kind} {name!r}: invalid name", remedy)
        if not is_present(item):
            continue
        if not str(number).isdecimal() or not 0 < int(str(number)) <= _LARGEST or int(str(number)) == _NOBODY:
            problem = f"{kind} {name}: invalid {key} {number}"
            yield make_problem([], option, problem, f"set a number from 1 to {_LARGEST} except {_NOBODY}")


def _bad_directory_user(user: Mapping[str, Any], known: Collection[str] | None) -> Iterable[Problem]:
    """Yield the problems with a directory user, which is an entry without uid."""
    name = str(user["name"])
    key = f"{USERS}[{name}]"
    if not _DIRECTORY_NAME.fullmatch(name) or (name == "root" and not is_present(user)):
        yield make_problem([], USERS, f"user {name!r}: invalid name", "use letters, digits, '_', '.', '@' and '-'")
    if not is_present(user):
        return
    # An entry that only removes the user from accounting does not need the user on the hosts.
    leaves = not is_present(user.get("slurm") or {})
    if known is not None and name not in {*known, "root"} and not leaves:
        remedy = "set a fixed number above 0, or set identity_source if the user is in a directory"
        yield make_problem([], key, "uid is missing (identity_source is 'declared')", remedy)
        return
    for field in _LOCAL:
        if field in user:
            remedy = "set uid for a local account, or remove this key, because the directory defines its value"
            yield make_problem([], f"{key}.{field}", "requires a uid", remedy)


def _bad_fields(users: Items) -> Iterable[Problem]:
    for user in filter(is_local, users):
        for field, (form, remedy) in _FIELDS.items():
            if user.get(field) and not form.fullmatch(str(user[field])):
                found = (
                    "is not a hash"
                    if field == "password_hash"
                    else f"is invalid in /etc/passwd (found {user[field]!r})"
                )
                yield make_problem([], f"{USERS}[{user['name']}].{field}", found, remedy)


def _bad_keys(users: Items) -> Iterable[Problem]:
    remedy = "copy the line of the .pub file; `ssh-keygen -l -f FILE` checks it"
    for user in filter(is_present, users):
        for key in user.get("authorized_keys") or []:
            for line in str(key).splitlines():
                fault = "" if not line.strip() or line.startswith("#") else key_fault(line.strip())
                if fault:
                    yield make_problem([], f"{USERS}[{user['name']}].authorized_keys", fault, remedy)


def _duplicates(items: Iterable[Mapping[str, Any]], option: str, kind: str, key: str) -> Iterable[Problem]:
    names: set[str] = set()
    holders: dict[int, str] = {}
    for item in items:
        name = item["name"]
        if name in names:
            yield make_problem([], option, f"{kind} {name} is declared twice", "remove one of the entries")
            continue
        names.add(name)
        if not is_present(item) or not str(item.get(key)).isdecimal():
            continue
        first = holders.setdefault(int(item[key]), name)
        if first != name:
            problem = f"{key} {item[key]} is declared for both {first} and {name}"
            yield make_problem([], option, problem, "change one of them")


def _host_conflicts(host: str, items: Items, here: Mapping[str, int], words: tuple[str, str, str]) -> Iterable[Problem]:
    """Yield the conflicts of declared users or groups with those on the host; absent entries release name and ID."""
    option, kind, key = words
    leaving = {item["name"] for item in items if not is_present(item)}
    holders: dict[int, list[str]] = {}
    for name, number in here.items():
        if name not in leaving:
            holders.setdefault(int(number), []).append(name)
    for item in items:
        if not is_present(item) or item.get(key) is None:
            continue
        name, number = item["name"], int(item[key])
        if name in here and int(here[name]) != number:
            problem = f"{kind} {name} has a different {key} on the host (found {here[name]}, expected {number})"
            yield make_problem(
                [host],
                option,
                problem,
                f"correct it in the inventory, or change it on the host together with the owner of {name}'s files",
            )
        for other in holders.get(number, []):
            if other != name:
                problem = f"{key} {number} of {kind} {name} is taken by {other}"
                remedy = f"change the {key} of {name}, or that of {other} on the host"
                if option == USERS and number >= _FIRST_USER:
                    remedy += f"; to rename {other}, add {{name: {other}, state: absent}} and set home of {name}"
                yield make_problem([host], option, problem, remedy)


KEY_TYPES = (
    *("ssh-ed25519", "ssh-rsa", "ecdsa-sha2-nistp256", "ecdsa-sha2-nistp384", "ecdsa-sha2-nistp521"),
    *("sk-ssh-ed25519@openssh.com", "sk-ecdsa-sha2-nistp256@openssh.com"),
)
# Each field of the key data has a length prefix; the first field is the type, followed by at least one number.
_LENGTH, _LEAST_FIELDS = 4, 2
# Options before a key in authorized_keys; quoted values may contain commas and spaces.
_OPTIONS = re.compile(r'(?:[^\s"]|"(?:\\"|[^"])*")+\s+')


def key_fault(line: str) -> str:
    """Return why a line of authorized_keys is invalid, or ''; the error does not include the line."""
    options = _OPTIONS.match(line)
    has_options = options is not None and not line.startswith(KEY_TYPES)
    try:
        checked_key(line[options.end() :] if options is not None and has_options else line)
    except ValueError as exc:
        return str(exc)
    return ""


def _fields(blob: bytes) -> list[bytes]:
    """Return the fields of key data; an empty list if the data is truncated."""
    fields = []
    while blob:
        end = _LENGTH + int.from_bytes(blob[:_LENGTH], "big")
        if end > len(blob):
            return []
        fields.append(blob[_LENGTH:end])
        blob = blob[end:]
    return fields


def checked_key(line: str) -> str:
    """Return a public key on one line.

    Raises:
        ValueError: the line is not a public key; the message does not include the line.
    """
    if "PRIVATE KEY" in line:
        message = "this is a private key; use the public key (.pub) instead"
        raise ValueError(message)
    words = line.split()
    kind = words[0] if words else ""
    try:
        fields = _fields(base64.b64decode(words[1], validate=True) if words[1:] else b"")
    except ValueError:
        fields = []
    if kind not in KEY_TYPES or len(fields) < _LEAST_FIELDS or fields[0].decode("ascii", "replace") != kind:
        message = f"not an SSH public key: write TYPE DATA COMMENT on one line, such as {KEY_TYPES[0]} AAAA… me@laptop"
        raise ValueError(message)
    if not line.isprintable():
        message = "the key contains non-printable characters"
        raise ValueError(message)
    return " ".join(words)
