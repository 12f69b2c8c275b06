"""Checks the options of the users role."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import yaml
from ansible.parsing.yaml.dumper import AnsibleDumper

from ...plugins.module_utils.access.account_problems import account_problems
from ...plugins.module_utils.access.accounts import is_present
from ...plugins.module_utils.common.problems import make_problem
from ...plugins.plugin_utils.preflight.options import places_of
from ...plugins.plugin_utils.role_checks import Known, Problem

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ...plugins.plugin_utils.preflight.options import Setting

# Options that have the same value on all hosts, with their defaults.
SITE_OPTIONS: dict[str, Any] = {
    "users_accounts": [],
    "users_groups": [],
    "slurm_users": [],
    "identity_source": "declared",
}
FORMER, USERS = "slurm_users", "users_accounts"
# Printed instead of a password hash. The preflight rejects this value, so that pasting it cannot remove a password.
KEEP = "keep the current value"
_HINT = f"copy them from the terminal, because the log has no line breaks; replace '{KEEP}' with the current value"


def former_users_problems(settings: Sequence[Setting], values: Mapping[str, Any]) -> list[Problem]:
    """Return the problem that `slurm_users` is set, with the merged entries.

    Args:
        settings: the variables that the site sets.
        values: both options after templating, used for lists that are templates or set in several places.
    """
    where = [each for each in settings if each.name == FORMER]
    if not where:
        return []
    merged = merged_users(_entries(settings, values, USERS), _entries(settings, values, FORMER))
    lines = [f"  - {_flow(entry)}" for entry in merged]
    remedy = "\n".join([f"delete {FORMER}, and replace {USERS} with these lines ({_HINT}):", f"{USERS}:", *lines])
    hosts = [each.host for each in where if each.host]
    return [make_problem(hosts, FORMER, f"was merged into {USERS}{places_of(where)}", remedy)]


def merged_users(accounts: Iterable[Mapping[str, Any]], users: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Merge slurm_users into users_accounts, and return the entries."""
    merged: dict[str, dict[str, Any]] = {str(entry["name"]): dict(entry) for entry in accounts}
    for user in users:
        entry = merged.setdefault(str(user["name"]), {"name": user["name"]})
        if is_present(user):
            if not is_present(entry):
                # The entry removes the local login, but the user still has a Slurm account, probably from a directory.
                entry = merged[str(user["name"])] = {"name": user["name"]}
            accounts = user.get("accounts") or []
            names = [user.get("default_account"), *([accounts] if isinstance(accounts, str) else accounts)]
            account, *more = dict.fromkeys(filter(None, names)) or [None]
            slurm = {"account": account, "accounts": more, "admin": user.get("admin_level")}
            kept = ("limits", "fairshare", "qos", "default_qos")
            slurm |= {key: user[key] for key in kept if key in user}
            entry["slurm"] = {key: value for key, value in slurm.items() if value not in (None, [], "None")}
        elif is_present(entry):
            entry["slurm"] = {"state": "absent"}
    return list(merged.values())


def _entries(settings: Sequence[Setting], values: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    """Return the entries of a list as written if it is set in one place, otherwise after templating."""
    written = [each.value for each in settings if each.name == name]
    value = written[0] if len(written) == 1 and isinstance(written[0], list) else values[name]
    return [each for each in value if isinstance(each, dict) and each.get("name")] if isinstance(value, list) else []


def _flow(entry: Mapping[str, Any]) -> str:
    """Return an entry as one line of YAML; a plain-text password hash is masked."""
    secret = entry.get("password_hash")
    hidden = {"password_hash": KEEP} if isinstance(secret, str) and "{{" not in secret else {}
    style: dict[str, Any] = {"default_flow_style": True, "sort_keys": False, "width": 10**6, "allow_unicode": True}
    return str(yaml.dump({**entry, **hidden}, Dumper=AnsibleDumper, **style)).strip()


def check(options: Known, cluster: Known) -> list[Problem]:
    """Return the problems with the declared users and groups.

    Args:
        options: `accounts` and `groups`.
        cluster: `known`, users without a declared UID that exist on the hosts; None if a directory may have any user.
    """
    return account_problems(options["accounts"], options["groups"], known=cluster["known"])


def check_inventory(options: Known, cluster: Known) -> list[Problem]:
    """Return the problems with the site's users and groups."""
    others = {str(each.value) for each in cluster["settings"] if each.name == "ansible_user"}
    known = others if options["identity_source"] == "declared" else None
    return account_problems(options["users_accounts"], options["users_groups"], known=known)


def check_former(options: Known, cluster: Known) -> list[Problem]:
    """Return the entries of `slurm_users`, merged into users_accounts."""
    return former_users_problems(cluster["settings"], options)


INVENTORY = {"users_accounts, users_groups": check_inventory, "slurm_users": check_former}
