"""Filter over the pure function of the same name."""

from __future__ import annotations

DOCUMENTATION = r"""
name: backup_problems
author: busbar contributors
short_description: What is wrong with the options of a backup
description: What is wrong with the options of a backup.
options:
  _input:
    description: C(host), C(repository), C(directory), C(keep), C(max_age), C(paths).
    type: dict
    required: true
  known:
    description: The hosts of the inventory.
    type: list
    elements: str
    required: true
  host:
    description: Whose options they are.
    type: str
    required: true
"""

EXAMPLES = r"""
problems: "{{ options | busbar.cluster.backup_problems(groups['all'], inventory_hostname) }}"
"""

RETURN = r"""
_value:
  description: Problems, each with C(hosts), C(key), C(problem), C(remedy).
  type: list
  elements: dict
"""

from ..module_utils.backup.problems import backup_problems
from ..plugin_utils.border import Filters, border


class FilterModule:
    """The filter `busbar.cluster.backup_problems`."""

    def filters(self) -> Filters:
        """Return the filter by its name."""
        return {"backup_problems": border(backup_problems)}
