"""Filter that turns receivers and routes into Alertmanager's configuration."""

from __future__ import annotations

DOCUMENTATION = r"""
name: alertmanager_plan
author: busbar contributors
short_description: Alertmanager's configuration and flags as a site declares them
description: Alertmanager's configuration and flags as a site declares them.
positional: host
options:
  _input:
    description: The options of the role C(alertmanager) without its name, and C(program), its path.
    type: dict
    required: true
  host:
    description: The host's name, for messages.
    type: str
    required: true
"""

EXAMPLES = r"""
plan: "{{ settings | busbar.cluster.alertmanager_plan(inventory_hostname) }}"
"""

RETURN = r"""
_value:
  description:
    - C(problems); C(unheard), severities of which the site says nothing; C(listen), address and port; C(config), the
      configuration as data; C(command) of its unit. The last two are empty when there are problems.
  type: dict
"""

from typing import TYPE_CHECKING, Any

from ..plugin_utils.border import Filters, border
from ..plugin_utils.common.program_source import start_command
from ..plugin_utils.common.socket_address import socket_address
from ..plugin_utils.monitoring.alert_config import alertmanager_config
from ..plugin_utils.monitoring.alert_routes import routing_problems, unheard_severities
from ..plugin_utils.monitoring.alert_service import alertmanager_arguments, service_problems

if TYPE_CHECKING:
    from collections.abc import Mapping


def plan(settings: Mapping[str, Any], host: str) -> dict[str, Any]:
    """Return the plan."""
    problems = routing_problems(settings, host) + service_problems(settings, host)
    command = ""
    if not problems:
        words = [settings["program"], *alertmanager_arguments(settings)]
        command, problems = start_command("alertmanager", words, host)
    return {
        "problems": problems,
        "unheard": unheard_severities(settings),
        "listen": socket_address(str(settings["address"]), settings["port"]),
        "config": {} if problems else alertmanager_config(settings),
        "command": command,
    }


class FilterModule:
    """The filter `busbar.cluster.alertmanager_plan`."""

    def filters(self) -> Filters:
        """Return the filter by its name."""
        return {"alertmanager_plan": border(plan)}
