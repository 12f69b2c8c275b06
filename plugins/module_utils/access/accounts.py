"""Compute the changes to users and groups on a host."""

from __future__ import annotations

import grp
import hashlib
import pwd
from contextlib import suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = [
    "account_plan",
    "declared_groups",
    "home_of",
    "is_local",
    "is_present",
    "key_files",
    "known_groups",
    "known_users",
    "password_digest",
    "slurm_users",
]

Item = dict[str, Any]
# Seconds since 1970 for the user module; shadow(5) treats day 0 as no expiry.
_ENDED, _NEVER = 86400, -1


def password_digest(password_hash: str) -> str:
    """Return a digest of a password hash for comparison, so that the hash does not leave its host."""
    return hashlib.sha256(password_hash.encode()).hexdigest()


def declared_groups(users: Sequence[Mapping[str, Any]], groups: Sequence[Mapping[str, Any]]) -> list[Item]:
    """Return the declared groups; each user without `group` adds one with the user's name and the UID as GID."""
    own = [
        {"name": user["name"], "gid": user.get("uid"), "state": user.get("state", "present")}
        for user in users
        if not user.get("group") and (is_local(user) or not is_present(user))
    ]
    named = {group["name"] for group in groups}
    return [dict(group) for group in groups] + [group for group in own if group["name"] not in named]


def account_plan(
    users: Sequence[Mapping[str, Any]],
    groups: Sequence[Mapping[str, Any]],
    found: Mapping[str, Any],
    defaults: Mapping[str, Any],
    passwords: Mapping[str, str],
) -> dict[str, list[Any]]:
    """Return the changes that a host needs; each list is empty if nothing changes.

    Args:
        users: items of users_accounts.
        groups: items of users_groups.
        found: `users` (name to uid, gid, comment, home, shell, home_exists, groups, password, locked) and `groups`
            (name to gid), from the account_info module.
        defaults: default `shell`, `home_base` and `create_home` of users.
        passwords: password_digest() of each declared password hash, by user name.
    """
    every_group = declared_groups(users, groups)
    gids = {group["name"]: int(group["gid"]) for group in every_group if is_present(group)}
    names = {group["name"] for group in every_group}
    here = found["users"]
    wanted = [_wanted(user, here.get(user["name"], {}), names, defaults) for user in filter(is_local, users)]
    return {
        "users_absent": [
            {"name": user["name"], "remove_home": bool(user.get("remove_home"))}
            for user in users
            if not is_present(user) and user["name"] in here
        ],
        "groups_absent": [
            {"name": group["name"]}
            for group in every_group
            if not is_present(group) and group["name"] in found["groups"]
        ],
        "groups": [{"name": name, "gid": gid} for name, gid in gids.items() if name not in found["groups"]],
        "users": [user for user in wanted if _differs(user, here.get(user["name"]), gids)],
        "former_homes": [
            f"the home of {user['name']} changes from {now['home']} to {user['home']}"
            for user in wanted
            for now in [here.get(user["name"]) or {}]
            if now.get("home_exists") and now["home"] != user["home"]
        ],
        "passwords": [
            {"name": user["name"]}
            for user in filter(is_local, users)
            if passwords.get(user["name"], "") not in {"", here.get(user["name"], {}).get("password")}
        ],
    }


def key_files(users: Sequence[Mapping[str, Any]], existing: Sequence[str], directory: str) -> list[Item]:
    """Return the authorized keys files, as entries for the `templates` module.

    Args:
        users: items of users_accounts.
        existing: names of existing files; files of users without keys are removed.
        directory: directory of the files.
    """
    files: list[Item] = []
    for user in users:
        path = f"{directory.rstrip('/')}/{user['name']}"
        keys = user.get("authorized_keys") if is_present(user) else None
        if keys:
            files.append({"path": path, "content": "".join(f"{key.strip()}\n" for key in keys)})
        elif user["name"] in existing:
            files.append({"path": path, "state": "absent"})
    return files


def is_present(item: Mapping[str, Any]) -> bool:
    """Return whether a declared user or group has state present."""
    return bool(item.get("state", "present") == "present")


def is_local(user: Mapping[str, Any]) -> bool:
    """Return whether hosts need a local account for a declared user; users without uid are in a directory."""
    return is_present(user) and user.get("uid") is not None


def home_of(user: Mapping[str, Any], base: str) -> str:
    """Return the home of a declared user; `base` is the directory of homes that the entry does not set."""
    return str(user.get("home") or f"{base.rstrip('/')}/{user['name']}")


def slurm_users(users: Sequence[Mapping[str, Any]]) -> list[Item]:
    """Return the Slurm users for the slurm_accounting module, with the default account first.

    Args:
        users: items of users_accounts.
    """
    found: list[Item] = []
    for user in users:
        slurm = user.get("slurm")
        if not is_present(user) or (slurm is not None and not is_present(slurm)):
            found.append({"name": user["name"], "state": "absent"})
        elif slurm is not None:
            names = dict.fromkeys([slurm.get("account"), *(slurm.get("accounts") or [])])
            more = {key: value for key, value in slurm.items() if key not in {"account", "accounts", "state"}}
            found.append({"name": user["name"], "accounts": [str(name) for name in names if name], **more})
    return found


def _wanted(user: Mapping[str, Any], now: Mapping[str, Any], declared: set[str], defaults: Mapping[str, Any]) -> Item:
    """Return the module arguments that change a user; memberships in undeclared groups are kept."""
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
        "home": home_of(user, defaults["home_base"]),
        "create_home": bool(defaults["create_home"] if create_home is None else create_home),
        **_expiry(user.get("locked"), locked=bool(now.get("locked"))),
    }


def _expiry(wanted: bool | None, *, locked: bool) -> Item:  # noqa: FBT001 - the value of a user's option
    """Return `expires` if a user is to be locked or unlocked; an expired account accepts neither keys nor passwords."""
    if wanted is None or bool(wanted) == locked:
        return {}
    return {"expires": _ENDED if wanted else _NEVER}


def _differs(user: Item, now: Mapping[str, Any] | None, gids: Mapping[str, int]) -> bool:
    if now is None:
        return True
    same = all(user[key] == now[key] for key in ("uid", "comment", "shell", "home"))
    same = same and gids.get(user["group"]) == now["gid"] and set(user["groups"]) == set(now["groups"])
    return not same or "expires" in user or (user["create_home"] and not now["home_exists"])


def known_users(names: list[str], uids: list[int]) -> dict[str, pwd.struct_passwd]:
    """Return the users with these names or UIDs.

    Each is also looked up separately, because some directory services do not enumerate users.
    """
    known = {entry.pw_name: entry for entry in pwd.getpwall() if entry.pw_name in names or entry.pw_uid in uids}
    for name in names:
        with suppress(KeyError):
            known.setdefault(name, pwd.getpwnam(name))
    for uid in uids:
        with suppress(KeyError, OverflowError):
            entry = pwd.getpwuid(uid)
            known.setdefault(entry.pw_name, entry)
    return known


def known_groups(names: list[str], gids: list[int]) -> dict[str, grp.struct_group]:
    """Return the groups that the host enumerates, and those with these names or GIDs."""
    known = {entry.gr_name: entry for entry in grp.getgrall()}
    for name in names:
        with suppress(KeyError):
            known.setdefault(name, grp.getgrnam(name))
    for gid in gids:
        with suppress(KeyError, OverflowError):
            entry = grp.getgrgid(gid)
            known.setdefault(entry.gr_name, entry)
    return known
