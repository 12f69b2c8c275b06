"""Filter that compares the declared accounts with those of a host."""

from __future__ import annotations

DOCUMENTATION = r"""
name: account_plan
author: busbar contributors
short_description: What must change on a host to have the declared accounts
description: Compares the declaration with what M(busbar.cluster.account_info) returned.
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
  found:
    description: Result of M(busbar.cluster.account_info).
    type: dict
    required: true
  shell:
    description: Login shell of a user who names none.
    type: str
    required: true
  home_base:
    description: Directory of the homes.
    type: str
    required: true
  create_home:
    description: Whether a missing home is made.
    type: bool
    required: true
  host:
    description: The host's name, for messages.
    type: str
    required: true
  key:
    description: The option that the problems are of, where it is none of the role C(users).
    type: str
    default: ""
  key_directory:
    description: Directory of the files of authorized keys.
    type: str
    required: true
"""

EXAMPLES = r"""
plan: >-
  {{ users_accounts | busbar.cluster.account_plan(
       groups=users_groups, found=found, shell='/bin/bash', home_base='/home', create_home=true,
       key_directory='/etc/ssh/authorized_keys.d') }}
"""

RETURN = r"""
_value:
  description:
    - C(problems), as the filter C(problem_report) takes them. When there are any, nothing else is planned and nothing
      may be changed.
    - C(users_absent), C(groups_absent), C(groups), C(users) and C(passwords) are what must change, in that order.
    - C(changes) tells whether any of these is not empty.
    - C(key_files) are all files of authorized keys, for the option O(busbar.cluster.files#module:files).
  type: dict
"""

from typing import TYPE_CHECKING, Any

from ..module_utils.access.account_problems import account_conflicts, removal_conflicts
from ..module_utils.access.accounts import account_plan, key_files
from ..plugin_utils.border import Filters, border

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    Items = Sequence[Mapping[str, Any]]


def plan(  # noqa: PLR0913 - the options of two roles
    users: Items,
    groups: Items,
    found: Mapping[str, Any],
    *,
    host: str,
    key_directory: str,
    key: str = "",
    **defaults: object,
) -> dict[str, Any]:
    """Return the plan with its problems."""
    passwd = {name: user["uid"] for name, user in found["users"].items()}
    problems = account_conflicts(host, users, groups, passwd, found["groups"])
    problems += removal_conflicts(host, users, found.get("active") or {})
    if problems:
        return {"problems": [{**problem, "key": key or problem["key"]} for problem in problems]}
    changes = account_plan(users, groups, found, defaults)
    files = key_files(users, found["key_files"], key_directory)
    return {"problems": [], "key_files": files, "changes": any(changes.values()), **changes}


class FilterModule:
    """The filter `busbar.cluster.account_plan`."""

    def filters(self) -> Filters:
        """Return the filter by its name."""
        return {"account_plan": border(plan, hint="users_accounts, users_groups")}
