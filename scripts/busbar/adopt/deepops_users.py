"""Converts the users of DeepOps."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import yaml
from ansible_collections.busbar.cluster.plugins.module_utils.access.account_problems import key_fault

from busbar.adopt.draft import ASK, CARRIED, LEFT, Vaulted
from busbar.adopt.source import is_on, resolved

if TYPE_CHECKING:
    from collections.abc import Sequence

    from busbar.adopt.reading import Reading

# Password of the account `nvidia` in config.example: the word "deepops".
_PUBLIC = "$6$IrxI27V4ogJFfgTV$RvNskQFvXZzE9AFsIokuXKwDAyqs9Jd03Trfi7DsHoCyllK79/zhAciZPENt4.2uRNMR0gE6.mRD/o9jP7WcZ."
_WITHOUT_OPTION = ("append", "profile", "update_password", "generate_ssh_key")


def users(reading: Reading) -> None:
    """Convert users, groups_to_create and users_deleted. Users without UID become comments in users.yml."""
    gids = {str(item["name"]): item.get("gid") for item in resolved(reading.value("groups_to_create")) or []}
    found = [_user(reading, item, gids) for item in _declared(reading)]
    names = [user["name"] for user in found]
    found += [
        {"name": login, "uid": None, "slurm": _slurm_of(accounts)}
        for login, accounts in reading.members.items()
        if login not in names
    ]
    accounts = [user for user in found if user["uid"] is not None]
    _ask_about_twins(reading, found)
    if accounts:
        reading.note("users", CARRIED, f"users_accounts: {', '.join(user['name'] for user in accounts)}")
    reading.leave("users", "no user is left to carry over")
    for item in resolved(reading.value("users_deleted")) or []:
        gone = {"name": str(item["username"]), "uid": item.get("uid"), "state": "absent"}
        gone["remove_home"] = is_on(item.get("remove")) or None
        accounts.append({key: value for key, value in gone.items() if value is not None})
        reading.note("users_deleted", CARRIED, "users_accounts with state: absent")
    if accounts:
        reading.draft.variables["users_accounts"] = accounts
    _groups(reading, gids, accounts)
    if pending := [user for user in found if user["uid"] is None]:
        logins = ", ".join(user["name"] for user in pending)
        question = (
            f"which UIDs do {logins} have? Until then they are comments in users.yml; Slurm's accounting keeps them"
        )
        reading.draft.note("UIDs", ASK, question)
        reading.draft.comments["users"] = [
            "Add the missing UIDs, then move these entries into users_accounts:",
            *(_line(user) for user in pending),
        ]


def _ask_about_twins(reading: Reading, found: Sequence[dict[str, Any]]) -> None:
    """Ask about names and UIDs that occur twice; the preflight refuses the site until they are unique."""
    names = Counter(user["name"] for user in found)
    owners: dict[int, list[str]] = {}
    for user in found:
        owners.setdefault(user["uid"], []).append(user["name"])
    twins = [f"user {name} is declared {count} times" for name, count in names.items() if count > 1]
    twins += [f"UID {uid} belongs to {', '.join(who)}" for uid, who in owners.items() if uid and len(set(who)) > 1]
    for text in twins:
        question = f"{text}: keep one (see getent passwd on the hosts); takeover is refused until then"
        reading.draft.note("UIDs", ASK, question, reading.source.where("users"))


def _declared(reading: Reading) -> list[dict[str, Any]]:
    """Return the items of `users` without the account of DeepOps' example."""
    kept = []
    for item in resolved(reading.value("users")) or []:
        login = item["username"] = str(item.get("username") or item.get("name"))
        if str(item.get("password", "")) == _PUBLIC:
            why = "the account has the published password of DeepOps' example: remove it from the hosts"
            reading.draft.note(f"users[{login}]", LEFT, why, reading.source.where("users"))
        else:
            kept.append(item)
    return kept


def _user(reading: Reading, item: dict[str, Any], gids: dict[str, Any]) -> dict[str, Any]:
    """Return an item of users_accounts; a primary group with its own number is added to `gids`."""
    where, login, uid = reading.source.where("users"), item["username"], item.get("uid")
    keys = item.get("ssh_key") or []
    keys = [key.strip() for key in (keys.splitlines() if isinstance(keys, str) else map(str, keys)) if key.strip()]
    if any(map(key_fault, keys)):
        question = "not a public key of SSH, so the preflight refuses it: correct it"
        reading.draft.note(f"users[{login}].ssh_key", ASK, question, where)
    group = item.get("group")
    if uid is None and (group or reading.number("/etc/passwd", login) == reading.number("/etc/passwd", login, 3)):
        uid = reading.number("/etc/passwd", login)
    if group is None and item.get("gid") not in {None, uid}:
        group, gids[login] = login, item["gid"]
    elif group is None and reading.has("users_create_per_user_group") and not reading.on("users_create_per_user_group"):
        group = str(reading.value("users_group") or "users")
    password = item.get("password")
    is_hash = isinstance(password, Vaulted) or str(password or "").startswith("$")
    if password and not is_hash and password not in {"!", "*"}:
        reading.draft.note(f"users[{login}].password", LEFT, "a password in clear text", where)
    if lost := [key for key in _WITHOUT_OPTION if is_on(item.get(key)) or (key in item and key != "generate_ssh_key")]:
        reading.draft.note(f"users[{login}]", LEFT, f"no option: {', '.join(lost)}", where)
    groups = item.get("groups") or []
    entry = {
        "name": login,
        "uid": int(str(uid)) if str(uid).isdigit() else None,
        "group": group,
        "groups": groups.replace(" ", "").split(",") if isinstance(groups, str) else list(groups),
        "comment": item.get("name") if item.get("name") != login else None,
        "shell": item.get("shell"),
        "home": item.get("home") if item.get("home") != f"/home/{login}" else None,
        "authorized_keys": keys,
        "password_hash": password if is_hash else None,
        "slurm": _slurm_of(reading.members[login]) if login in reading.members else None,
    }
    return {key: value for key, value in entry.items() if value or key in {"name", "uid"}}


def _groups(reading: Reading, gids: dict[str, Any], accounts: Sequence[dict[str, Any]]) -> None:
    """Declare the groups whose GID the directory or the hosts define, and ask for the other GIDs."""
    needed = {*gids, *(str(user["group"]) for user in accounts if "group" in user)}
    gids |= {name: reading.number("/etc/group", name) for name in sorted(needed) if gids.get(name) is None}
    if known := [{"name": name, "gid": int(gid)} for name, gid in gids.items() if gid is not None]:
        reading.draft.variables["users_groups"] = known
        reading.note_if_set("groups_to_create", CARRIED, "users_groups")
    for name in sorted(name for name in needed if gids[name] is None):
        question = "its GID is not in this directory: declare it in users_groups (getent group NAME)"
        reading.draft.note(f"group {name}", ASK, question, reading.source.where("users"))


def _slurm_of(accounts: Sequence[str]) -> dict[str, Any]:
    return {"account": accounts[0], **({"accounts": list(accounts[1:])} if accounts[1:] else {})}


def _line(entry: dict[str, Any]) -> str:
    """Return an entry as one line of YAML without its UID; secrets stay out of comments."""
    shown = {key: value for key, value in entry.items() if not isinstance(value, Vaulted)}
    text = yaml.safe_dump([shown], default_flow_style=True, sort_keys=False, width=10**6)
    return f"- {text.strip()[1:-1].replace('uid: null', 'uid: ')}"
