"""Users and groups: is the declaration sound, does it fit a host, and what must change there."""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

__all__ = [
    "account_conflicts",
    "account_plan",
    "account_problems",
    "declared_groups",
    "key_files",
    "password_digest",
    "removal_conflicts",
]

_NAME = re.compile(r"[a-z_][a-z0-9_-]{0,31}")
_LARGEST = 2**32 - 2
_NOBODY = 65534

Item = dict[str, Any]


def password_digest(password_hash: str) -> str:
    """Return what is compared in place of a password's hash, so that no hash leaves its host."""
    return hashlib.sha256(password_hash.encode()).hexdigest()


def declared_groups(users: Sequence[Mapping[str, Any]], groups: Sequence[Mapping[str, Any]]) -> list[Item]:
    """Return the declared groups and, for each user without `group`, one of the user's own name and number."""
    own = [
        {"name": user["name"], "gid": user.get("uid"), "state": user.get("state", "present")}
        for user in users
        if not user.get("group")
    ]
    named = {group["name"] for group in groups}
    return [dict(group) for group in groups] + [group for group in own if group["name"] not in named]


def account_problems(users: Sequence[Mapping[str, Any]], groups: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return what is wrong with the declaration itself, one sentence each; no host is needed to tell."""
    every_group = declared_groups(users, groups)
    problems = [
        *_bad_entries(users, "user", "uid"),
        *_bad_entries(groups, "group", "gid"),
        *_doubles(users, "user", "uid"),
        *_doubles(every_group, "group", "gid"),
    ]
    present = {group["name"] for group in every_group if _is_present(group)}
    return problems + [
        f"user {user['name']}: group {user['group']} is not declared: add it to users_groups with its gid"
        for user in filter(_is_present, users)
        if user.get("group") and user["group"] not in present
    ]


def account_conflicts(
    users: Sequence[Mapping[str, Any]],
    groups: Sequence[Mapping[str, Any]],
    passwd: Mapping[str, int],
    group_ids: Mapping[str, int],
) -> list[str]:
    """Return why the declaration does not fit a host, one sentence each with the remedy.

    The declaration is one in which account_problems finds nothing.

    Args:
        users: items with `name`, `uid`, and optionally `group`, `groups`, `state`.
        groups: items with `name`, `gid`, and optionally `state`.
        passwd: uid of every user name on the host.
        group_ids: gid of every group name on the host.
    """
    every_group = declared_groups(users, groups)
    conflicts = [
        *_taken(users, passwd, "user", "uid", "users_accounts"),
        *_taken(every_group, group_ids, "group", "gid", "users_groups"),
    ]
    known = {group["name"] for group in every_group if _is_present(group)} | set(group_ids)
    for user in filter(_is_present, users):
        conflicts += [
            f"user {user['name']}: there is no group {name}: add it to users_groups with its gid, or drop it"
            for name in user.get("groups") or []
            if name not in known
        ]
    return conflicts


def removal_conflicts(users: Sequence[Mapping[str, Any]], active: Mapping[str, Sequence[str]]) -> list[str]:
    """Return why users who are to be removed cannot be yet, one sentence each with the remedy.

    Args:
        users: items of users_accounts.
        active: processes and jobs of each user, one sentence each, as the module account_info returns them.
    """
    return [
        f"user {user['name']} cannot be removed yet, there is {', '.join(active[user['name']])}: wait until that has "
        f"ended, or end it (scancel --user={user['name']}; loginctl terminate-user {user['name']}); "
        "no user was removed on any host"
        for user in users
        if not _is_present(user) and active.get(user["name"])
    ]


def account_plan(
    users: Sequence[Mapping[str, Any]],
    groups: Sequence[Mapping[str, Any]],
    found: Mapping[str, Any],
    defaults: Mapping[str, Any],
) -> dict[str, list[Item]]:
    """Return the changes that a host needs, each list empty when there is nothing to do.

    Args:
        users: items of users_accounts.
        groups: items of users_groups.
        found: `users` (name to uid, gid, comment, home, shell, home_exists, groups, password) and `groups` (name to
            gid), as the module account_info returns them.
        defaults: `shell`, `home_base` and `create_home` for users that do not say.
    """
    every_group = declared_groups(users, groups)
    gids = {group["name"]: int(group["gid"]) for group in every_group if _is_present(group)}
    names = {group["name"] for group in every_group}
    here = found["users"]
    wanted = [_wanted(user, here.get(user["name"], {}), names, defaults) for user in filter(_is_present, users)]
    return {
        "users_absent": [
            {"name": user["name"], "remove_home": bool(user.get("remove_home"))}
            for user in users
            if not _is_present(user) and user["name"] in here
        ],
        "groups_absent": [
            {"name": group["name"]}
            for group in every_group
            if not _is_present(group) and group["name"] in found["groups"]
        ],
        "groups": [{"name": name, "gid": gid} for name, gid in gids.items() if name not in found["groups"]],
        "users": [user for user in wanted if _differs(user, here.get(user["name"]), gids)],
        "passwords": [
            {"name": user["name"]}
            for user in filter(_is_present, users)
            if user.get("password_hash")
            and here.get(user["name"], {}).get("password") != password_digest(user["password_hash"])
        ],
    }


def key_files(users: Sequence[Mapping[str, Any]], existing: Sequence[str], directory: str) -> list[Item]:
    """Return the files of authorized keys, as the module files takes them.

    Args:
        users: items of users_accounts.
        existing: names of the files that are there; those of users who have no keys any more are to go.
        directory: where the files are.
    """
    files: list[Item] = []
    for user in users:
        path = f"{directory.rstrip('/')}/{user['name']}"
        keys = user.get("authorized_keys") if _is_present(user) else None
        if keys:
            files.append({"path": path, "content": "".join(f"{key.strip()}\n" for key in keys)})
        elif user["name"] in existing:
            files.append({"path": path, "state": "absent"})
    return files


def _is_present(item: Mapping[str, Any]) -> bool:
    return bool(item.get("state", "present") == "present")


def _bad_entries(items: Iterable[Mapping[str, Any]], kind: str, key: str) -> list[str]:
    problems = []
    for item in items:
        name, number = str(item["name"]), item.get(key)
        if not _NAME.fullmatch(name) or name == "root":
            problems.append(f"{kind} {name!r}: this name cannot be used: small letters, digits, '_' and '-', not root")
        if not _is_present(item):
            continue
        if not str(number).isdecimal() or not 0 < int(str(number)) <= _LARGEST or int(str(number)) == _NOBODY:
            problems.append(f"{kind} {name}: {key} {number} cannot be used: declare a fixed number above 0")
    return problems


def _doubles(items: Iterable[Mapping[str, Any]], kind: str, key: str) -> list[str]:
    problems = []
    names: set[str] = set()
    holders: dict[int, str] = {}
    for item in items:
        name = item["name"]
        if name in names:
            problems.append(f"{kind} {name} is declared twice: remove one of the entries")
            continue
        names.add(name)
        if not _is_present(item) or not str(item.get(key)).isdecimal():
            continue
        first = holders.setdefault(int(item[key]), name)
        if first != name:
            problems.append(f"{key} {item[key]} is declared for both {first} and {name}: give one of them another")
    return problems


def _taken(items: Sequence[Mapping[str, Any]], here: Mapping[str, int], kind: str, key: str, option: str) -> list[str]:
    """Return the conflicts of one kind; what is declared absent makes way."""
    leaving = {item["name"] for item in items if not _is_present(item)}
    holders: dict[int, list[str]] = {}
    for name, number in here.items():
        if name not in leaving:
            holders.setdefault(int(number), []).append(name)
    conflicts = []
    for item in filter(_is_present, items):
        name, number = item["name"], int(item[key])
        if name in here and int(here[name]) != number:
            conflicts.append(
                f"{kind} {name} has {key} {here[name]} there and {number} in {option}: make them equal by hand, "
                f"with the files that belong to {name}"
            )
        conflicts += [
            f"{key} {number} of {kind} {name} is taken by {other}: "
            f"give {name} another {key} in {option}, or renumber {other} there"
            for other in holders.get(number, [])
            if other != name
        ]
    return conflicts


def _wanted(user: Mapping[str, Any], now: Mapping[str, Any], declared: set[str], defaults: Mapping[str, Any]) -> Item:
    """Return the arguments of a user's change; groups that are not declared stay as they are."""
    primary = user.get("group") or user["name"]
    kept = {name for name in now.get("groups", []) if name not in declared}
    comment = user.get("comment")
    create_home = user.get("create_home")
    return {
        "name": user["name"],
        "uid": int(user["uid"]),
        "group": primary,
        "groups": sorted((kept | set(user.get("groups") or [])) - {primary}),
        "comment": now.get("comment", "") if comment is None else comment,
        "shell": user.get("shell") or defaults["shell"],
        "home": user.get("home") or f"{defaults['home_base'].rstrip('/')}/{user['name']}",
        "create_home": bool(defaults["create_home"] if create_home is None else create_home),
    }


def _differs(user: Item, now: Mapping[str, Any] | None, gids: Mapping[str, int]) -> bool:
    if now is None:
        return True
    same = all(user[key] == now[key] for key in ("uid", "comment", "shell", "home"))
    same = same and gids.get(user["group"]) == now["gid"] and set(user["groups"]) == set(now["groups"])
    return not same or (user["create_home"] and not now["home_exists"])
