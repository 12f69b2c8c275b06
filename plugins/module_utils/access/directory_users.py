"""Plan changes to users in the cluster's LDAP directory, without contacting it."""

from __future__ import annotations

import difflib
import re
from typing import TYPE_CHECKING, Any, NamedTuple

from .ldap_tools import add_ldif, change_ldif, delete_ldif

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from .id_conflicts import Holder

    Entry = Mapping[str, Sequence[str]]
    Change = Mapping[str, Any]

__all__ = ["Directory", "Settings", "next_number"]

_NAME = re.compile(r"[a-z_][a-z0-9_-]{0,31}")
_LOWEST, _HIGHEST = 1000, 59999
_CLASSES = ("inetOrgPerson", "posixAccount", "ldapPublicKey")


def next_number(taken: Iterable[int], first: int) -> int:
    """Return the next free UID after the highest used one, but at least `first`."""
    return max([number for number in taken if number >= first], default=first - 1) + 1


class Settings(NamedTuple):
    """The site's options for directory users."""

    suffix: str
    login_groups: Sequence[str]
    locked_group: str
    first_number: int
    home_base: str
    shell: str


class ImpossibleError(ValueError):
    """A requested change cannot be made; the message contains the reason."""


class Directory:
    """Users and groups of a directory, updated with each planned change.

    Attributes:
        ldif: LDIF records of the changes, in order.
        messages: descriptions of the changes.
        removed: names of removed users.
        wrong: error messages; if the list is not empty, the caller must not change the directory.
    """

    def __init__(self, people: Iterable[Entry], groups: Iterable[Entry], settings: Settings) -> None:
        """Copy the current entries of the directory."""
        self._people = {one["uid"][0]: {key: list(value) for key, value in one.items()} for one in people}
        self._groups = {one["cn"][0]: {key: list(value) for key, value in one.items()} for one in groups}
        self._settings = settings
        self.ldif: list[str] = []
        self.messages: list[str] = []
        self.removed: list[str] = []
        self.errors: list[str] = []

    def change(self, changes: Sequence[Change], others: Sequence[Holder]) -> None:
        """Plan changes; record each change, or the error if it is not possible.

        Args:
            changes: each with `do`, `name` and the keys of that action.
            others: users and groups of the host or the declaration.
        """
        for change in changes:
            try:
                if change["do"] == "add":
                    self._add(change, others)
                elif change["do"] == "remove":
                    self._remove(change["name"], others)
                elif change["do"] in {"lock", "unlock"}:
                    self._lock(change["name"], others, locked=change["do"] == "lock")
                elif change["do"] == "key":
                    self._key(change, others)
                else:
                    self._group(change, others)
            except ImpossibleError as exc:
                self.errors.append(str(exc))

    def _add(self, change: Change, others: Sequence[Holder]) -> None:
        name = change["name"]
        if not _NAME.fullmatch(name):
            message = f"{name!r} is not a valid user name"
            raise ImpossibleError(message)
        local = next((one for one in others if one.kind == "user" and one.name == name), None)
        if local:
            message = f"{name} exists in {local.place} with UID {local.number} and cannot be added to the directory"
            raise ImpossibleError(message)
        primary = change.get("group") or self._settings.login_groups[0]
        self._require_groups([primary, *change.get("groups", [])], name)
        if name in self._people:
            self._require_same(change)
            self._keys(name, change.get("keys", []), [])
        else:
            self._create(change, primary, others)
        for group in dict.fromkeys([self._settings.login_groups[0], *change.get("groups", [])]):
            self._member(group, name)

    def _create(self, change: Change, primary: str, others: Sequence[Holder]) -> None:
        name, number = change["name"], change.get("number")
        holders = {one.number: f"{one.name} in {one.place}" for one in others if one.kind == "user"}
        holders |= {_number(one): f"{uid} in the directory" for uid, one in self._people.items()}
        if number is None:
            gids = [_number(one, "gidnumber") for one in self._groups.values()]
            taken = [*holders, *gids, *(one.number for one in others)]
            # Higher UIDs belong to system accounts (nobody, systemd) and containers.
            number = next_number([one for one in taken if one <= _HIGHEST], self._settings.first_number)
        if not _LOWEST <= number <= _HIGHEST:
            message = f"{name}: UID {number} is out of range ({_LOWEST} to {_HIGHEST})"
            raise ImpossibleError(message)
        if number in holders:
            message = f"{name}: UID {number} is taken by {holders[number]}; choose another UID, or omit it"
            raise ImpossibleError(message)
        full_name = change.get("full_name") or name
        attributes = {
            "objectClass": list(_CLASSES),
            "cn": [full_name],
            "sn": [full_name.split()[-1]],
            "uidNumber": [str(number)],
            "gidNumber": self._groups[primary]["gidnumber"][:1],
            "homeDirectory": [f"{self._settings.home_base.rstrip('/')}/{name}"],
            "loginShell": [self._settings.shell],
            **({"sshPublicKey": list(change["keys"])} if change.get("keys") else {}),
        }
        self.ldif.append(add_ldif(self._dn(name), attributes))
        self.messages.append(f"add {name} with UID {number}")
        own = {key.lower(): value for key, value in attributes.items()}
        self._people[name] = {**own, "dn": [self._dn(name)], "uid": [name]}

    def _require_same(self, change: Change) -> None:
        """Check that the requested attributes of an existing user match the directory.

        Raises:
            ImpossibleError: they differ.
        """
        name, held = change["name"], self._people[change["name"]]
        gid = self._groups[change["group"]]["gidnumber"][0] if change.get("group") else None
        attributes = {"uidnumber": change.get("number"), "cn": change.get("full_name"), "gidnumber": gid}
        for key, value in attributes.items():
            there = held.get(key, [""])[0]
            if value is not None and str(value) != there:
                message = f"{name} is in the directory with a different {key} (found {there}, requested {value})"
                raise ImpossibleError(message)

    def _remove(self, name: str, others: Sequence[Holder]) -> None:
        if name not in self._people:
            self._reject_local_user(name, others)
            # If an earlier removal was interrupted, the remaining tasks of the run complete it.
            self.messages.append(f"{name} is not in the directory: nothing to remove")
            return
        for group, entry in self._groups.items():
            if name in entry.get("memberuid", []):
                self._member(group, name, remove=True)
        self.ldif.append(delete_ldif(self._dn(name)))
        number = _number(self._people.pop(name))
        self.removed.append(name)
        self.messages.append(f"remove {name} (UID {number}); the home directory stays")

    def _lock(self, name: str, others: Sequence[Holder], *, locked: bool) -> None:
        self._require_user(name, others)
        group = self._settings.locked_group
        if group not in self._groups:
            message = f"{name}: the directory has no group {group!r} for locked users (identity_locked_group)"
            raise ImpossibleError(message)
        if self._member(group, name, remove=not locked, quiet=True):
            self.messages.append(f"{'lock' if locked else 'unlock'} {name}")

    def _key(self, change: Change, others: Sequence[Holder]) -> None:
        self._require_user(change["name"], others)
        self._keys(change["name"], change.get("add", []), change.get("remove", []))

    def _group(self, change: Change, others: Sequence[Holder]) -> None:
        name = change["name"]
        self._require_user(name, others)
        self._require_groups([*change.get("add", []), *change.get("remove", [])], name)
        if self._settings.locked_group in [*change.get("add", []), *change.get("remove", [])]:
            message = f"{name}: {self._settings.locked_group} is reserved for `busbar user lock` and `unlock`"
            raise ImpossibleError(message)
        for group in change.get("add", []):
            self._member(group, name)
        for group in change.get("remove", []):
            self._member(group, name, remove=True)

    def _member(self, group: str, name: str, *, remove: bool = False, quiet: bool = False) -> bool:
        members = self._groups[group].setdefault("memberuid", [])
        if (name in members) is not remove:
            return False
        self._groups[group]["memberuid"] = [one for one in members if one != name] + ([] if remove else [name])
        how = "delete" if remove else "add"
        dn = self._groups[group]["dn"][0]
        self.ldif.append(change_ldif(dn, [(how, "memberUid", [name])]))
        if not quiet:
            self.messages.append(f"{name}: {'remove' if remove else 'add'} group {group}")
        return True

    def _keys(self, name: str, more: Sequence[str], gone: Sequence[str]) -> None:
        entry = self._people[name]
        held = entry.get("sshpublickey", [])
        removed = [key for key in held if any(word in (key, *key.split(maxsplit=2)[1:]) for word in gone)]
        added = [key for key in more if key not in held or key in removed]
        parts = [("delete", "sshPublicKey", removed)] if removed else []
        if added and "ldapPublicKey" not in entry.get("objectclass", []):
            parts.append(("add", "objectClass", ["ldapPublicKey"]))
        parts += [("add", "sshPublicKey", added)] if added else []
        if parts:
            self.ldif.append(change_ldif(self._dn(name), parts))
            entry["sshpublickey"] = [key for key in held if key not in removed] + added
        self.messages += [f"{name}: remove key {_short(key)}" for key in removed]
        self.messages += [f"{name}: add key {_short(key)}" for key in added]

    def _require_user(self, name: str, others: Sequence[Holder]) -> None:
        """Check that a user is in the directory.

        Raises:
            ImpossibleError: the user is missing.
        """
        if name in self._people:
            return
        self._reject_local_user(name, others)
        near = difflib.get_close_matches(name, self._people, 1)
        message = f"{name}: no such user in the directory" + (f"; did you mean {near[0]}?" if near else "")
        raise ImpossibleError(message)

    def _reject_local_user(self, name: str, others: Sequence[Holder]) -> None:
        local = next((one for one in others if one.kind == "user" and one.name == name), None)
        if local:
            way = "use --declared" if local.place == "users_accounts" else "it is a local account of that host"
            message = f"{name} is in {local.place} with UID {local.number}, not in the directory: {way}"
            raise ImpossibleError(message)

    def _require_groups(self, groups: Sequence[str], name: str) -> None:
        """Check that groups are in the directory.

        Raises:
            ImpossibleError: a group is missing.
        """
        unknown = [group for group in groups if group not in self._groups]
        if unknown:
            known = ", ".join(sorted(self._groups)) or "none"
            message = f"{name}: unknown groups {', '.join(unknown)}; the directory has {known}"
            raise ImpossibleError(message)

    def _dn(self, name: str) -> str:
        entry = self._people.get(name)
        return str(entry["dn"][0]) if entry else f"uid={name},ou=people,{self._settings.suffix}"

    def people(self) -> list[dict[str, Any]]:
        """Return the users after the planned changes, in the format of `busbar user list`."""
        by_number = {entry["gidnumber"][0]: name for name, entry in self._groups.items() if entry.get("gidnumber")}
        return [
            {
                "name": name,
                "number": _number(entry),
                "full_name": entry.get("cn", [""])[0],
                "group": by_number.get(entry.get("gidnumber", [""])[0], entry.get("gidnumber", [""])[0]),
                "groups": sorted(
                    group
                    for group, held in self._groups.items()
                    if name in held.get("memberuid", []) and group != self._settings.locked_group
                ),
                "keys": len(entry.get("sshpublickey", [])),
                "locked": name in self._groups.get(self._settings.locked_group, {}).get("memberuid", []),
                "source": "directory",
            }
            for name, entry in sorted(self._people.items())
        ]


def _number(entry: Entry, key: str = "uidnumber") -> int:
    text = (list(entry.get(key) or []) or ["0"])[0]
    return int(text) if text.isdecimal() else 0


def _short(key: str) -> str:
    """Return the type and comment of a key."""
    words = key.split(maxsplit=2)
    return " ".join([words[0], *words[2:]])
