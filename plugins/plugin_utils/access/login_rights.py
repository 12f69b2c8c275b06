"""Group the declared users by permissions: sudo, login, Slurm accounts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...module_utils.access.accounts import is_local, is_present, slurm_users

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["login_rights"]


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
