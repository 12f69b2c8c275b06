"""Filter over the pure function of its work."""

from __future__ import annotations

DOCUMENTATION = r"""
name: enroot_credentials
author: busbar contributors
short_description: Credentials for registries as files, each for its user alone
description: Credentials for registries as files, each for its user alone. They never go to the module that decides.
options:
  _input:
    description: Items of C(enroot_credentials).
    type: list
    elements: dict
    required: true
  directory:
    description: Where the files lie, in one directory for each user.
    type: str
    required: true
  kept:
    description: Users who have a file now, as M(busbar.cluster.enroot_configuration) returns C(credentials).
    type: list
    elements: str
    default: []
"""

EXAMPLES = r"""
files: "{{ (enroot_credentials | busbar.cluster.enroot_credentials('/etc/enroot/users', kept)).files }}"
"""

RETURN = r"""
_value:
  description:
    - C(problems), as M(busbar.cluster.refuse) takes them, none with a secret.
    - C(files) for M(busbar.cluster.templates), none while there are problems.
  type: dict
"""

from ..module_utils.containers.enroot_credentials import credential_files
from ..plugin_utils.border import Filters, border


class FilterModule:
    """The filter `busbar.cluster.enroot_credentials`."""

    def filters(self) -> Filters:
        """Return the filter by its name."""
        return {
            "enroot_credentials": border(credential_files, hint="an option of enroot is of the wrong kind", secret=True)
        }
