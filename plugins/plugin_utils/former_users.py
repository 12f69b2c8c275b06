"""Merges the former option `slurm_users` into `users_accounts`, for a message whose YAML can be pasted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import yaml

from ..module_utils.access.accounts import is_present
from ..module_utils.common.problems import make_problem
from .preflight.options import places_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ..module_utils.common.problems import Problem
    from .preflight.options import Setting

__all__ = ["former_users_problems", "merged_users"]

FORMER, USERS = "slurm_users", "users_accounts"
# The preflight refuses it as a value of password_hash, so a pasted entry cannot remove a password.
KEEP = "keep the present value"


def former_users_problems(settings: Sequence[Setting], values: Mapping[str, Any]) -> list[Problem]:
    """Return the problem that `slurm_users` is set, with the merged entries.

    Args:
        settings: what the site sets.
        values: the two options as Ansible works them out, for lists that are templates or set in several places.
    """
    where = [each for each in settings if each.name == FORMER]
    if not where:
        return []
    merged = merged_users(_entries(settings, values, USERS), _entries(settings, values, FORMER))
    lines = [f"  - {_flow(entry)}" for entry in merged]
    copied = f"; copy values that read {KEEP!r} from the present entries" if any(KEEP in line for line in lines) else ""
    what = f"delete {FORMER}, and put these lines in place of {USERS} (the log has them without indentation{copied}):"
    remedy = "\n".join([what, f"{USERS}:", *lines])
    hosts = [each.host for each in where if each.host]
    return [make_problem(hosts, FORMER, f"was merged into {USERS}{places_of(where)}", remedy)]


def merged_users(accounts: Iterable[Mapping[str, Any]], users: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return entries of users_accounts with the keys of `slurm_users`; a user only in the latter gets an entry."""
    merged: dict[str, dict[str, Any]] = {str(entry["name"]): dict(entry) for entry in accounts}
    for user in users:
        entry = merged.setdefault(str(user["name"]), {"name": user["name"]})
        if is_present(user):
            names = dict.fromkeys([user.get("default_account"), *(user.get("accounts") or [])])
            account, *more = [name for name in names if name] or [None]
            slurm = {"account": account, "accounts": more, "admin": user.get("admin_level")}
            kept = ("limits", "fairshare", "qos", "default_qos")
            slurm |= {key: user[key] for key in kept if key in user}
            entry["slurm"] = {key: value for key, value in slurm.items() if value not in (None, [], "None")}
        elif is_present(entry):
            entry["slurm"] = {"state": "absent"}
    return list(merged.values())


def _entries(settings: Sequence[Setting], values: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    """Return the entries of a list as they are written, or as Ansible works them out."""
    written = [each.value for each in settings if each.name == name]
    value = written[0] if len(written) == 1 and isinstance(written[0], list) else values[name]
    entries = [_plain(each) for each in value] if isinstance(value, list) else []
    return [each for each in entries if isinstance(each, dict) and each.get("name")]


def _plain(value: Any, key: str = "") -> Any:  # noqa: ANN401 - as a site writes it
    """Return a value without Ansible's own types; encrypted values and hashes of passwords are left out."""
    if isinstance(value, dict):
        return {str(name): _plain(each, str(name)) for name, each in value.items()}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, (int, float)):
        return value + 0
    if not isinstance(value, str) or (key == "password_hash" and "{{" not in value):
        return KEEP
    return value.encode().decode()


def _flow(entry: Mapping[str, Any]) -> str:
    """Return an entry as YAML within a line."""
    text: str = yaml.safe_dump(dict(entry), default_flow_style=True, sort_keys=False, width=10**6, allow_unicode=True)
    return text.strip()
