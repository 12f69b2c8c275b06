"""Filter that returns Enroot's credentials files."""

from __future__ import annotations

DOCUMENTATION = r"""
name: enroot_credentials
author: busbar contributors (!UNKNOWN)
short_description: Files with credentials for registries, one per user
description: Generates one file per user with the credentials for registries. The module
  M(busbar.cluster.enroot_configuration) does not receive the credentials.
options:
  _input:
    description: Items of C(enroot_credentials).
    type: list
    elements: dict
    required: true
  directory:
    description: Directory of the files, with one directory per user.
    type: str
    required: true
  kept:
    description: Users with an existing file, from C(credentials) of M(busbar.cluster.enroot_configuration).
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
    - C(problems), as for M(busbar.cluster.refuse), without secrets.
    - C(files) for M(busbar.cluster.templates), empty if there are problems.
  type: dict
"""

from ..module_utils.containers.enroot_credentials import credential_files
from ..plugin_utils.ansible_errors import filter_module

FilterModule = filter_module(
    "enroot_credentials", credential_files, hint="an option of the role enroot has the wrong type", secret=True
)
