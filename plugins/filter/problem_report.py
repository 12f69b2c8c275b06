"""Filter that writes problems as text."""

from __future__ import annotations

DOCUMENTATION = r"""
name: problem_report
author: busbar contributors
short_description: Problems as text, equal ones grouped, hosts folded
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

from typing import TYPE_CHECKING, Any

from ansible.errors import AnsibleFilterError

from ..module_utils.common.problems import Problem, problem_report

if TYPE_CHECKING:
    from collections.abc import Callable


def report(problems: list[Problem]) -> str:
    """Return the problems as text.

    Raises:
        AnsibleFilterError: when an entry is no problem.
    """
    try:
        return problem_report(problems)
    except (AttributeError, KeyError, TypeError) as exc:
        message = "problem_report needs a list of {hosts, key, problem, remedy}"
        raise AnsibleFilterError(message) from exc


class FilterModule:
    """The filter `busbar.cluster.problem_report`."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filter by its name."""
        return {"problem_report": report}
