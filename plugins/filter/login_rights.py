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

from ..plugin_utils.access.login_rights import login_rights
from ..plugin_utils.ansible_errors import Filters, border


class FilterModule:
    """The filter `busbar.cluster.login_rights`."""

    def filters(self) -> Filters:
        """Return the filter by its name."""
        return {"login_rights": border(login_rights)}
