"""Find users with sudo rights in the output of `cvtsudoers -e -f json`."""

from __future__ import annotations

import json
from typing import Any

__all__ = ["sudo_holders"]


def sudo_holders(text: str) -> dict[str, list[str]]:
    """Return users and groups with at least one sudo rule, by name or as `#number`.

    Rules for ALL are ignored, because they give all users the same privileges.

    Raises:
        ValueError: the text is not output of cvtsudoers.
    """
    found = json.loads(text)
    if not isinstance(found, dict):
        message = "is not output of cvtsudoers"
        raise ValueError(message)  # noqa: TRY004 - the text is invalid, not the argument type
    members = [member for spec in found.get("User_Specs") or [] for member in spec.get("User_List") or []]
    granted = [member for member in members if not member.get("negated")]
    return {
        "users": _names(granted, "username", "userid"),
        "groups": _names(granted, "usergroup", "usergid"),
    }


def _names(members: list[dict[str, Any]], by_name: str, by_number: str) -> list[str]:
    names = {str(member[by_name]) for member in members if by_name in member} - {"ALL"}
    return sorted(names | {f"#{member[by_number]}" for member in members if by_number in member})
