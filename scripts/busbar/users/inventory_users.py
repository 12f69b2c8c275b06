"""Finds and edits the file in the inventory that declares users."""

from __future__ import annotations

import difflib
import os
from typing import TYPE_CHECKING, Any

from ansible_collections.busbar.cluster.plugins.module_utils.access.accounts import (
    is_local,
    is_present,
    slurm_users,
)
from ansible_collections.busbar.cluster.plugins.module_utils.access.directory_users import next_number
from ansible_collections.busbar.cluster.plugins.plugin_utils.site_folder import inventory_folder

from busbar.errors import UsageError
from busbar.users.request import LAST
from busbar.users.yaml_edit import CannotEditError, YamlFile

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    Item = dict[str, Any]

USERS, FORMER = "users_accounts", "slurm_users"
FIRST_NUMBER = 2001
_SUFFIXES = frozenset({".yml", ".yaml", ""})


class Declared:
    """The users in the inventory, and the file that contains them."""

    def __init__(self, sources: Sequence[str], variables: Mapping[str, Mapping[str, Any]]) -> None:
        """Find the file.

        Args:
            sources: sources of the inventory.
            variables: unevaluated variables of each host.

        Raises:
            UsageError: the file of the list cannot be edited, or the site still sets `slurm_users`.
        """
        self._common = next(iter(variables.values()), {})
        if any(FORMER in own for own in variables.values()):
            message = f"{FORMER} was merged into {USERS}: `busbar provision preflight` prints the entries"
            raise UsageError(message)
        folders = [inventory_folder(source) for source in sources if "," not in source]
        if not folders:
            message = "an inline host list has no file with users: use an inventory file with -i"
            raise UsageError(message)
        paths = [path for path in _files(folders) if _declares_users(path)]
        default = folders[0] / "group_vars" / "all" / "users.yml"
        if default.parent.with_suffix(".yml").is_file():
            default = default.parent.with_suffix(".yml")
        if len(paths) > 1:
            message = f"{USERS} is in {' and in '.join(map(str, paths))}: keep it in only one of them"
            raise UsageError(message)
        self._place = paths[0] if paths else default
        self._file = _read(self._place)
        self._users = self._checked(variables)

    def _checked(self, variables: Mapping[str, Mapping[str, Any]]) -> list[Item]:
        try:
            items = self._file.items()
        except CannotEditError as exc:
            message = f"{self._place}: {exc}: write it as a list of entries, or edit it by hand"
            raise UsageError(message) from exc
        for item in items:
            if not isinstance(item.get("slurm") or {}, dict):
                message = f"{self._place}: slurm of {item['name']} is not a mapping: write it as one, or edit by hand"
                raise UsageError(message)
        here = [(str(item["name"]), str(item.get("uid", ""))) for item in items]
        for host, own in variables.items():
            held = own.get(USERS) or []
            if isinstance(held, str):
                there = None
            else:
                there = [(str(item.get("name")), str(item.get("uid", ""))) for item in held]
            if there != here:
                message = (
                    f"{USERS} of {host} is not defined in {self._place}: busbar edits only the list in group_vars/all "
                    "of the inventory; move it there, or edit it by hand"
                )
                raise UsageError(message)
        return [dict(item) for item in items]

    def people(self) -> list[Item]:
        """Return the users with an account on the hosts, in the format of `list`."""
        accounts = {str(item["name"]): item.get("accounts", []) for item in self.associations()}
        return [
            {
                "name": str(item["name"]),
                "number": item.get("uid"),
                "full_name": str(item.get("comment") or ""),
                "group": str(item.get("group") or item["name"]),
                "groups": list(map(str, item.get("groups") or [])),
                "accounts": accounts.get(str(item["name"]), []),
                "keys": len(item.get("authorized_keys") or []),
                "locked": item.get("locked") is True,
                "source": USERS,
            }
            for item in filter(is_local, self._users)
        ]

    def change(self, changes: Sequence[Item]) -> list[str]:
        """Apply changes and return a description of the differences.

        Raises:
            UsageError: a change is invalid; nothing was written.
        """
        lines: list[str] = []
        wrong: list[str] = []
        for change in changes:
            try:
                lines += getattr(self, f"_{change['do']}")(change)
            except UsageError as exc:
                wrong.append(str(exc))
        if wrong:
            raise UsageError("\n".join(wrong))
        return lines

    def _add(self, change: Item) -> list[str]:
        name, held = change["name"], self._entry(change["name"])
        self._known_groups(change)
        again = held is not None and not is_present(held)
        if held is not None and not again:
            lines = self._same(change, held)
        else:
            number = int(change.get("number") or (held or {}).get("uid") or self._next_number())
            self._free(name, number)
            lines = [f"add {name}{' again' if again else ''} with UID {number}"]
            if held is None:
                lists = (("groups", "groups"), ("authorized_keys", "keys"))
                held = {"name": name, "uid": number} | {field: change[key] for field, key in lists if key in change}
                self._users.append(held)
            held.pop("state", None)
            for field, value in (("uid", number), ("group", change.get("group")), ("comment", change.get("full_name"))):
                if value is not None and str(held.get(field)) != str(value):
                    held[field] = value
        for field, key in (("groups", "groups"), ("authorized_keys", "keys")):
            lines += _change_list(held, field, _values(held, field), change.get(key, []))
        return lines + self._add_accounts(change, held, again=again)

    def _same(self, change: Item, held: Item) -> list[str]:
        """Check that a request for a declared user matches the declaration, and add missing fields.

        Raises:
            UsageError: the request contradicts the declaration.
        """
        name, lines = change["name"], []
        for field, key in (("uid", "number"), ("group", "group"), ("comment", "full_name")):
            if key not in change or str(held.get(field)) == str(change[key]):
                continue
            if field in held:
                there = f"{name} is declared with {field} {held[field]} in {self._where(name)}"
                message = f"{there} (requested {change[key]})"
                raise UsageError(message)
            held[field] = change[key]
            lines.append(f"{name}: {field} {change[key]}")
        return lines

    def _remove(self, change: Item) -> list[str]:
        name, lines = change["name"], []
        held = self._entry(name)
        if held is None:
            raise UsageError(self._unknown_user_message(name))
        if is_present(held):
            held["state"] = "absent"
            number = f" (UID {held['uid']})" if held.get("uid") is not None else ""
            lines.append(f"remove {name}{number}; keep the home directory")
            lines += [f"remove {name} from Slurm's accounting"] if held.get("slurm") else []
        # `busbar user remove` keeps home directories.
        held.pop("remove_home", None)
        return lines

    def _lock(self, change: Item) -> list[str]:
        return self._locked(change["name"], locked=True)

    def _unlock(self, change: Item) -> list[str]:
        return self._locked(change["name"], locked=False)

    def _locked(self, name: str, *, locked: bool) -> list[str]:
        held = self._present(name)
        if held.get("locked", False) is locked:
            return []
        held["locked"] = locked
        return [f"{'lock' if locked else 'unlock'} {name}"]

    def _key(self, change: Item) -> list[str]:
        held = self._present(change["name"])
        keys = _values(held, "authorized_keys")
        gone = [key for key in keys if any(word in (key, *key.split(maxsplit=2)[1:]) for word in change["remove"])]
        return _change_list(held, "authorized_keys", [key for key in keys if key not in gone], change["add"])

    def _group(self, change: Item) -> list[str]:
        name, held = change["name"], self._present(change["name"])
        self._known_groups({"groups": [*change["add"], *change["remove"]], "name": name})
        kept = [group for group in _values(held, "groups") if group not in change["remove"]]
        return _change_list(held, "groups", kept, change["add"])

    def _add_accounts(self, change: Item, held: Item, *, again: bool = False) -> list[str]:
        """Add Slurm accounts to a user; a returning user (`again`) keeps only these."""
        name, wanted = change["name"], change.get("accounts") or []
        if not wanted:
            if again:
                held.pop("slurm", None)
            return []
        known = [str(item["name"]) for item in self._common.get("slurm_accounts") or [] if is_present(item)]
        unknown = [account for account in wanted if account not in known]
        if unknown:
            raise _unknown(name, "account", unknown, "slurm_accounts", known)
        slurm = held.get("slurm") or {}
        (now,) = slurm_users([{"name": name, "slurm": slurm}])
        there = [] if again else now.get("accounts", [])
        account, *more = dict.fromkeys([*there, *wanted])
        if [account, *more] == there:
            return []
        kept = {key: value for key, value in slurm.items() if key not in {"account", "accounts", "state"}}
        held["slurm"] = {"account": account, **({"accounts": more} if more else {}), **kept}
        return [f"{name}: set the Slurm accounts {', '.join(wanted)}"]

    def _known_groups(self, change: Item) -> None:
        """Check that the groups are declared.

        Raises:
            UsageError: a group is not declared.
        """
        groups = self._common.get("users_groups") or []
        known = [str(group["name"]) for group in groups if is_present(group)]
        groups = [change.get("group"), *change.get("groups", [])]
        unknown = [group for group in groups if group and group not in known]
        if unknown:
            raise _unknown(change["name"], "group", unknown, "users_groups", known)

    def _free(self, name: str, number: int) -> None:
        """Check that no other user has this UID.

        Raises:
            UsageError: names the user with this UID.
        """
        for item in self._users:
            if str(item["name"]) != name and is_present(item) and str(item.get("uid")) == str(number):
                message = (
                    f"{name}: UID {number} belongs to {item['name']} in {self._where(str(item['name']))}; "
                    "use another UID, or omit it"
                )
                raise UsageError(message)

    def _next_number(self) -> int:
        # UIDs are not reused: files of a removed user may still have them.
        users = [int(item["uid"]) for item in self._users if str(item.get("uid", "")).isdecimal()]
        groups = self._common.get("users_groups") or []
        gids = [int(item["gid"]) for item in groups if str(item.get("gid", "")).isdecimal()]
        return next_number([one for one in [*users, *gids] if one <= LAST], min(users, default=FIRST_NUMBER))

    def _present(self, name: str) -> Item:
        held = self._entry(name)
        if held is None or not is_present(held):
            raise UsageError(self._unknown_user_message(name))
        return held

    def _unknown_user_message(self, name: str) -> str:
        names = [str(item["name"]) for item in self._users]
        near = difflib.get_close_matches(name, names, 1)
        hint = f"; did you mean {near[0]}?" if near and near[0] != name else ""
        return f"{name}: not a user in {USERS} of {self._place}{hint}"

    def _entry(self, name: str) -> Item | None:
        return next((item for item in self._users if str(item["name"]) == name), None)

    def _where(self, name: str) -> str:
        line = self._file.line(name)
        return f"{self._place}:{line}" if line else str(self._place)

    def associations(self) -> list[Item]:
        """Return the Slurm users after the changes, in the format of the slurm_accounting module."""
        return slurm_users(self._users)

    def future(self) -> str:
        """Return users_accounts with the changes applied, as YAML for a run; vault tags are preserved."""
        _before, after = self.texts().get(self._place, ("", self._file.text))
        return "---\n" + YamlFile(after, USERS).section()

    def texts(self) -> dict[Path, tuple[str, str]]:
        """Return the changed file with its old and new text, if they differ.

        Raises:
            UsageError: the file has a form that cannot be edited.
        """
        before = self._file.text
        try:
            after = self._file.result(self._users)
        except CannotEditError as exc:
            message = f"{self._place}: {exc}; edit it by hand, then: busbar provision base --tags users"
            raise UsageError(message) from exc
        return {} if after == before else {self._place: (before, after)}


def write(path: Path, text: str) -> None:
    """Replace the content of a file and keep its mode.

    Raises:
        UsageError: the file cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        target = path.resolve()
        fresh = target.with_name(f".{target.name}.new")
        fresh.unlink(missing_ok=True)
        mode = target.stat().st_mode & 0o777 if target.exists() else 0o644
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        with open(descriptor, "w", encoding="utf-8") as file:  # noqa: PTH123 - Path cannot open descriptors
            file.write(text)
        fresh.chmod(mode)
        fresh.replace(target)
    except OSError as exc:
        message = f"cannot write {path}: {exc.strerror or exc}"
        raise UsageError(message) from exc


def _read(path: Path) -> YamlFile:
    """Read a file; a missing file counts as empty.

    Raises:
        UsageError: the file cannot be read.
    """
    try:
        text = path.read_text(encoding="utf-8") if path.exists() else "---\n"
        return YamlFile(text, USERS)
    except (OSError, UnicodeDecodeError, CannotEditError) as exc:
        message = f"{path}: {getattr(exc, 'strerror', None) or exc}"
        raise UsageError(message) from exc


def _declares_users(path: Path) -> bool:
    try:
        return USERS in _read(path).data
    except UsageError:
        # An encrypted file. If it contains the list, `_checked` detects that.
        return False


def _files(folders: Sequence[Path]) -> Iterator[Path]:
    """Yield the files with variables for all hosts."""
    for folder in folders:
        top = folder / "group_vars"
        for name in ("all", "all.yml", "all.yaml"):
            if (top / name).is_file():
                yield top / name
        for path in sorted((top / "all").rglob("*")) if (top / "all").is_dir() else []:
            hidden = any(part.startswith(".") for part in path.relative_to(top).parts)
            if path.is_file() and path.suffix in _SUFFIXES and not hidden and not path.name.endswith("~"):
                yield path


def _unknown(name: str, kind: str, unknown: Sequence[str], option: str, known: Sequence[str]) -> UsageError:
    there = ", ".join(known) or "none"
    return UsageError(f"{name}: no {kind} {', '.join(unknown)} in {option} (available: {there})")


def _values(item: Item, field: str) -> list[str]:
    return list(map(str, item.get(field) or []))


def _change_list(item: Item, field: str, kept: list[str], more: Sequence[str]) -> list[str]:
    """Set a list to the kept and the new values, and return a description of the differences."""
    before = _values(item, field)
    wanted = kept + [value for value in more if value not in kept]
    if wanted == before:
        return []
    item[field] = wanted
    if not wanted:
        del item[field]
    word = "key" if field == "authorized_keys" else "group"
    return [
        *(f"{item['name']}: add {word} {_short(value)}" for value in wanted if value not in before),
        *(f"{item['name']}: remove {word} {_short(value)}" for value in before if value not in wanted),
    ]


def _short(value: str) -> str:
    """Shorten a public key to its type and comment; return other values unchanged."""
    words = value.split(maxsplit=2)
    return " ".join([words[0], *words[2:]]) if words[1:] else value
