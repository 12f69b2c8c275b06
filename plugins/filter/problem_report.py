"""Filter that writes problems as text."""

from __future__ import annotations

DOCUMENTATION = r"""
name: problem_report
author: busbar contributors
short_description: Problems as text, equal ones grouped, hosts folded
description: Problems as text, equal ones grouped, hosts folded.
options:
  _input:
    description: Problems, each with C(hosts), C(key), C(problem), C(remedy).
    type: list
    elements: dict
    required: true
"""

EXAMPLES = r"""
- name: Show the problems
  ansible.builtin.debug:
    msg: "{{ problems | busbar.cluster.problem_report }}"
"""

RETURN = r"""
_value:
  description: Two lines for each problem.
  type: str
"""

from ..plugin_utils.border import Filters, border
from ..plugin_utils.common.problem_report import problem_report


class FilterModule:
    """The filter `busbar.cluster.problem_report`."""

    def filters(self) -> Filters:
        """Return the filter by its name."""
        return {"problem_report": border(problem_report, hint="each problem needs hosts, key, problem and remedy")}
