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
  description: The problems, as the filter C(problem_report) takes them.
  type: list
  elements: dict
"""

from ..module_utils.access.account_problems import account_problems
from ..plugin_utils.border import Filters, border


class FilterModule:
    """The filter `busbar.cluster.account_problems`."""

    def filters(self) -> Filters:
        """Return the filter by its name."""
        return {"account_problems": border(account_problems)}
