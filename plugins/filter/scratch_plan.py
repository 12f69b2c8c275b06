"""Filters over the pure functions of the same name."""

from __future__ import annotations

DOCUMENTATION = r"""
name: scratch_plan
author: busbar contributors
short_description: What is to be done with the disks of a scratch file system
description:
  - Works out the commands that lead from what is on the disks to what is declared, or why nothing may be done.
  - Without facts only the declaration is looked at.
options:
  _input:
    description:
      - What is declared, with the keys C(devices), C(raid), C(name), C(path), C(wipe), C(uuid), C(minimum_mb),
        C(chunk_kb) and C(mkfs_options).
    type: dict
    required: true
  host:
    description: Name of the host.
    type: str
    required: true
  facts:
    description: What M(busbar.cluster.scratch_info) returned as C(scratch).
    type: dict
"""

EXAMPLES = r"""
plan: "{{ declared | busbar.cluster.scratch_plan(inventory_hostname, disks.scratch) }}"
"""

RETURN = r"""
_value:
  description:
    - C(problems) is a list as the filter C(problem_report) takes it; when it is not empty nothing else counts.
    - C(steps) are the commands to run now and C(recipe) those that make scratch of blank disks. C(uuid) is that of
      the file system. C(undecided) says that mdadm or LVM must be installed first.
  type: dict
"""

from typing import TYPE_CHECKING, Any

from ..module_utils.storage.scratch_plan import declaration_problems, scratch_plan
from ..plugin_utils.border import Filters, border

if TYPE_CHECKING:
    from collections.abc import Mapping


def plan(declared: Mapping[str, Any], host: str, facts: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return the plan, or only the problems of the declaration where there are no facts."""
    if facts is None:
        return {"problems": declaration_problems(host, declared)}
    return scratch_plan(host, declared, facts)


class FilterModule:
    """The filter `busbar.cluster.scratch_plan`."""

    def filters(self) -> Filters:
        """Return the filter by its name."""
        return {"scratch_plan": border(plan)}
