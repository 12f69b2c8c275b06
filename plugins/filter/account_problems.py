"""Filter over the pure function of the same name."""

from __future__ import annotations

DOCUMENTATION = r"""
name: account_problems
author: busbar contributors
short_description: What is wrong with a declaration of users and groups
description: Names and numbers that occur twice or cannot be used, and groups that are not declared.
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
    required: true
"""

EXAMPLES = r"""
problems: "{{ users_accounts | busbar.cluster.account_problems(users_groups) }}"
"""

RETURN = r"""
_value:
  description: One sentence per problem, with the remedy.
  type: list
  elements: str
"""

from typing import TYPE_CHECKING, Any

from ..module_utils.access.accounts import account_problems

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


def problems(users: Sequence[Mapping[str, Any]], groups: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return one sentence per problem."""
    return account_problems(users, groups)


class FilterModule:
    """The filter `busbar.cluster.account_problems`."""

    def filters(self) -> dict[str, Callable[..., object]]:
        """Return the filter by name."""
        return {"account_problems": problems}
