"""Filter that runs the checks of a role (roles/NAME/checks.py)."""

from __future__ import annotations

DOCUMENTATION = r"""
name: role_problems
author: busbar contributors (!UNKNOWN)
short_description: Check the options of a role
description:
  - Calls the function O(check) of C(roles/NAME/checks.py), and returns the problems that it finds.
  - Passes all other named arguments to the function as information about the cluster. The docstring of each function
    lists those that it reads.
options:
  _input:
    description: Options of the role by name, without its prefix.
    type: raw
    required: true
  role:
    description: Name of the role.
    type: str
    required: true
  check:
    description: Name of the function.
    type: str
    default: check
  host:
    description: Host to which the options apply.
    type: str
"""

EXAMPLES = r"""
- name: Validate the modules of users
  busbar.cluster.refuse:
    problems: "{{ {'modules': lmod_modules} | busbar.cluster.role_problems('lmod', host=inventory_hostname) }}"
"""

RETURN = r"""
_value:
  description: Problems, each with C(hosts), C(key), C(problem), C(remedy).
  type: list
  elements: dict
"""

from typing import TYPE_CHECKING, Any

from ..plugin_utils.ansible_errors import filter_module
from ..plugin_utils.role_checks import checks_of

if TYPE_CHECKING:
    from ..module_utils.common.problems import Problem


def role_problems(
    options: Any,  # noqa: ANN401 - depends on the check
    role: str,
    check: str = "check",
    host: str | None = None,
    **cluster: Any,  # noqa: ANN401
) -> list[Problem]:
    """Return the problems that one of a role's checks finds."""
    known = cluster if host is None else {"host": host, **cluster}
    found: list[Problem] = getattr(checks_of(role), check)(options, known)
    return found


FilterModule = filter_module("role_problems", role_problems)
