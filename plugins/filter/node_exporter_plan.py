"""Filter that says how a node's exporter is started."""

from __future__ import annotations

DOCUMENTATION = r"""
name: node_exporter_plan
author: busbar contributors
short_description: How a node's exporter is started
positional: host
options:
  _input:
    description: The options of the role C(node_exporter) without its name.
    type: dict
    required: true
  host:
    description: The host's name, for messages.
    type: str
    required: true
"""

EXAMPLES = r"""
plan: "{{ settings | busbar.cluster.node_exporter_plan(inventory_hostname) }}"
"""

RETURN = r"""
_value:
  description: C(problems), C(arguments) and C(facts), the text about the node.
  type: dict
"""

from typing import TYPE_CHECKING, Any

from ansible.errors import AnsibleError, AnsibleFilterError

from ..module_utils.monitoring.node_exporter_plan import node_exporter_plan

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


def plan(settings: Mapping[str, Any], host: str) -> dict[str, Any]:
    """Return the plan.

    Raises:
        AnsibleFilterError: a value is of the wrong kind.
    """
    try:
        return node_exporter_plan(settings, host)
    except (AnsibleError, AttributeError, KeyError, TypeError, ValueError) as exc:
        message = f"node_exporter_plan: {exc!r}"
        raise AnsibleFilterError(message) from exc


class FilterModule:
    """The filter `busbar.cluster.node_exporter_plan`."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filter by its name."""
        return {"node_exporter_plan": plan}
