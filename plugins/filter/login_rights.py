"""Filter plugin of `login_rights`."""

from __future__ import annotations

DOCUMENTATION = r"""
name: login_rights
author: busbar contributors
short_description: Rights of the declared users
description: Sorts the declared users into admins, plain users and Slurm users.
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
    - Names under C(admin_users) and C(admin_groups), which have sudo rules, and C(plain_users), all others with a uid.
    - C(slurm_users) are items for M(busbar.cluster.slurm_accounting).
  type: dict
"""

from ..plugin_utils.access.login_rights import login_rights
from ..plugin_utils.border import Filters, border


class FilterModule:
    """The filter `busbar.cluster.login_rights`."""

    def filters(self) -> Filters:
        """Return the filter by its name."""
        return {"login_rights": border(login_rights)}
