"""Filter that says what a host's Grafana gets."""

from __future__ import annotations

DOCUMENTATION = r"""
name: grafana_plan
author: busbar contributors
short_description: What a host's Grafana gets
description: What a host's Grafana gets.
positional: host
options:
  _input:
    description: The options of the role C(grafana) without its name.
    type: dict
    required: true
  host:
    description: The host's name, for messages.
    type: str
    required: true
"""

EXAMPLES = r"""
plan: "{{ settings | busbar.cluster.grafana_plan(inventory_hostname) }}"
"""

RETURN = r"""
_value:
  description: C(problems), C(config), C(datasources), C(provider), C(package) and C(url).
  type: dict
"""

from ..plugin_utils.border import Filters, border
from ..plugin_utils.monitoring.grafana_plan import grafana_plan


class FilterModule:
    """The filter `busbar.cluster.grafana_plan`."""

    def filters(self) -> Filters:
        """Return the filter by its name."""
        return {"grafana_plan": border(grafana_plan)}
