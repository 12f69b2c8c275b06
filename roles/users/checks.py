"""Checks the options of the users role."""

from __future__ import annotations

from typing import Any

from ...plugins.module_utils.access.account_problems import account_problems
from ...plugins.plugin_utils.former_users import former_users_problems
from ...plugins.plugin_utils.role_checks import Known, Problem

# Options that have the same value on all hosts, with their defaults.
SITE_OPTIONS: dict[str, Any] = {
    "users_accounts": [],
    "users_groups": [],
    "slurm_users": [],
    "identity_source": "declared",
}


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
