"""Filter over the pure function of the same name."""

from __future__ import annotations

DOCUMENTATION = r"""
name: journal_remote_problems
author: busbar contributors
short_description: What is wrong with the options of the transport of journals
description: What is wrong with the options of the transport of journals.
options:
  _input:
    description:
      - C(receiver), C(address), C(port), C(max_use), C(keep_free), C(max_file_size), C(max_age_days), C(rotate_days).
    type: dict
    required: true
  host:
    description: Whose options they are.
    type: str
    required: true
"""

EXAMPLES = r"""
problems: "{{ options | busbar.cluster.journal_remote_problems(inventory_hostname) }}"
"""

RETURN = r"""
_value:
  description: Problems, each with C(hosts), C(key), C(problem), C(remedy).
  type: list
  elements: dict
"""

from ..module_utils.monitoring.journal_remote import journal_remote_problems
from ..plugin_utils.border import Filters, border


class FilterModule:
    """The filter `busbar.cluster.journal_remote_problems`."""

    def filters(self) -> Filters:
        """Return the filter by its name."""
        return {"journal_remote_problems": border(journal_remote_problems)}
