"""Who looks after the cluster, and who may go from host to host without a key, by the declared accounts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

__all__ = ["login_rights"]


def login_rights(users: Sequence[Mapping[str, Any]], groups: Sequence[Mapping[str, Any]] = ()) -> dict[str, list[str]]:
    """Return names by what they may do.

    Args:
        users: items of users_accounts.
        groups: items of users_groups.

    Returns:
        `admin_users` and `admin_groups`, for whom there are sudo rules, and `plain_users`, all other declared users.
    """
    admin_groups = [group["name"] for group in _present(groups) if group.get("sudo")]
    admins = [
        user["name"]
        for user in _present(users)
        if user.get("sudo") or {user.get("group") or "", *(user.get("groups") or [])} & set(admin_groups)
    ]
    return {
        "admin_users": [user["name"] for user in _present(users) if user.get("sudo")],
        "admin_groups": admin_groups,
        "plain_users": [user["name"] for user in _present(users) if user["name"] not in {*admins, "root"}],
    }


def _present(items: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return [item for item in items if item.get("state", "present") == "present"]
