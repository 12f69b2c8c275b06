"""Filter over the pure function of the same name."""

from __future__ import annotations

DOCUMENTATION = r"""
name: enroot_plan
author: busbar contributors
short_description: What a host is to have of Enroot
description: What a host is to have of Enroot.
options:
  _input:
    description:
      - What is declared, with C(packages), C(release), C(family), C(architecture), C(package_version), C(checksums),
        C(own), C(settings), C(mounts), C(credentials), C(users), C(path) and C(minimum_mb).
    type: dict
    required: true
  host:
    description: Name of the host.
    type: str
    required: true
  found:
    description: What M(busbar.cluster.enroot_info) returned as C(enroot). Without it only the declaration is judged.
    type: dict
"""

EXAMPLES = r"""
plan: "{{ declared | busbar.cluster.enroot_plan(inventory_hostname, host.enroot) }}"
"""

RETURN = r"""
_value:
  description:
    - C(problems), as the filter C(problem_report) takes them. When there are none, C(files), C(packages), C(config),
      C(mounts), C(credentials) and C(sysctls).
  type: dict
"""

from ..module_utils.containers.enroot_config import enroot_plan
from ..plugin_utils.border import Filters, border


class FilterModule:
    """The filter `busbar.cluster.enroot_plan`."""

    def filters(self) -> Filters:
        """Return the filter by its name."""
        return {"enroot_plan": border(enroot_plan, hint="an option of enroot is of the wrong kind", secret=True)}
