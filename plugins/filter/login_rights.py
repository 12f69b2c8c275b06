"""Filter that groups the declared users by permissions: sudo, login, Slurm accounts."""

from __future__ import annotations

DOCUMENTATION = r"""
name: login_rights
author: busbar contributors (!UNKNOWN)
short_description: Permissions of the declared users
description: Groups the declared users into admins with sudo, other login users, and users with a Slurm account.
options:
  _input:
    description: Items of C(users_accounts).
    type: list
    elements: dict
    required: true
  groups:
    description: Items of C(users_groups).
    type: list
    elements: dict
    default: []
"""

EXAMPLES = r"""
admins: "{{ (users_accounts | busbar.cluster.login_rights(users_groups)).admin_users }}"
"""

RETURN = r"""
_value:
  description:
    - C(admin_users) and C(admin_groups), names with sudo rules; C(plain_users), names of the other users with a UID.
    - C(slurm_users), items for M(busbar.cluster.slurm_accounting).
  type: dict
"""

from typing import TYPE_CHECKING, Any

from ..module_utils.access.accounts import is_local, is_present, slurm_users
from ..plugin_utils.ansible_errors import filter_module

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def login_rights(users: Sequence[Mapping[str, Any]], groups: Sequence[Mapping[str, Any]] = ()) -> dict[str, list[Any]]:
    """Return the declared users grouped by their permissions.

    Args:
        users: items of users_accounts.
        groups: items of users_groups.

    Returns:
        `admin_users` and `admin_groups`, names with sudo rules; `plain_users`, names of the other users with a local
        account; `slurm_users`, for the slurm_accounting module.
    """
    admin_groups = [group["name"] for group in filter(is_present, groups) if group.get("sudo")]
    present = list(filter(is_present, users))
    admins = [
        user["name"]
        for user in present
        if user.get("sudo") or {user.get("group") or "", *(user.get("groups") or [])} & set(admin_groups)
    ]
    return {
        "admin_users": [user["name"] for user in present if user.get("sudo")],
        "admin_groups": admin_groups,
        "plain_users": [user["name"] for user in filter(is_local, users) if user["name"] not in {*admins, "root"}],
        "slurm_users": slurm_users(users),
    }


FilterModule = filter_module("login_rights", login_rights)
