"""Filter that says how Prometheus is configured."""

from __future__ import annotations

DOCUMENTATION = r"""
name: prometheus_plan
author: busbar contributors
short_description: How Prometheus is configured
positional: host
options:
  _input:
    description: The options of the role C(prometheus) without its name.
    type: dict
    required: true
  host:
    description: The host's name, for messages.
    type: str
    required: true
"""

EXAMPLES = r"""
plan: "{{ settings | busbar.cluster.prometheus_plan(inventory_hostname) }}"
"""

RETURN = r"""
_value:
  description: C(problems), C(arguments), C(config) and C(secrets), texts by path.
  type: dict
"""

from typing import TYPE_CHECKING, Any

from ansible.errors import AnsibleError, AnsibleFilterError

from ..module_utils.monitoring.prometheus_plan import prometheus_plan

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


def plan(settings: Mapping[str, Any], host: str) -> dict[str, Any]:
    """Return the plan.

    Raises:
        AnsibleFilterError: a value is of the wrong kind.
    """
    try:
        return prometheus_plan(settings, host)
    except (AnsibleError, AttributeError, KeyError, TypeError, ValueError) as exc:
        message = f"prometheus_plan: {exc!r}"
        raise AnsibleFilterError(message) from exc


class FilterModule:
    """The filter `busbar.cluster.prometheus_plan`."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filter by its name."""
        return {"prometheus_plan": plan}
