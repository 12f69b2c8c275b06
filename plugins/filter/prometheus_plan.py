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
    description: >-
      The options of the role C(prometheus) without its name, C(program), its path, and C(rules_folder), the folder on
      this machine with the files of rules that busbar ships.
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
  description:
    - C(problems), C(listen), C(command) of its unit, C(config), C(confidential) and C(secrets), texts by path.
    - C(rules), the files of rules as entries for M(busbar.cluster.files), none while there are problems.
  type: dict
"""

from typing import TYPE_CHECKING, Any

from ..plugin_utils.border import Filters, border
from ..plugin_utils.common.untagged import untagged
from ..plugin_utils.monitoring.prometheus_plan import prometheus_plan
from ..plugin_utils.monitoring.prometheus_rules import rule_files, shipped_alert_problems, shipped_rules

if TYPE_CHECKING:
    from collections.abc import Mapping


def plan(settings: Mapping[str, Any], host: str) -> dict[str, Any]:
    """Return the plan."""
    planned = prometheus_plan(settings, host)
    folder, site, alerts = settings["rules_folder"], untagged(settings["rules"]), untagged(settings["alerts"])
    problems = planned["problems"] + shipped_alert_problems(folder, site, alerts, host)
    rules = [] if problems else rule_files(shipped_rules(folder), site, alerts)
    return {**planned, "problems": problems, "rules": rules}


class FilterModule:
    """The filter `busbar.cluster.prometheus_plan`."""

    def filters(self) -> Filters:
        """Return the filter by its name."""
        return {"prometheus_plan": border(plan)}
