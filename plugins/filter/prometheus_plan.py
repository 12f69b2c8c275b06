"""Filter that says how Prometheus is configured."""

from __future__ import annotations

DOCUMENTATION = r"""
name: prometheus_plan
author: busbar contributors
short_description: How Prometheus is configured
description: How Prometheus is configured.
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

from ..module_utils.monitoring.prometheus_plan import prometheus_plan
from ..plugin_utils.border import Filters, border


class FilterModule:
    """The filter `busbar.cluster.prometheus_plan`."""

    def filters(self) -> Filters:
        """Return the filter by its name."""
        return {"prometheus_plan": border(prometheus_plan)}
