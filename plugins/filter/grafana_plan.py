"""Filters that say what a host's Grafana gets, and which dashboards."""

from __future__ import annotations

DOCUMENTATION = r"""
name: grafana_plan
author: busbar contributors
short_description: What a host's Grafana gets
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

from pathlib import Path
from typing import TYPE_CHECKING, Any

from ansible.errors import AnsibleError, AnsibleFilterError

from ..module_utils.monitoring.grafana_plan import grafana_plan

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


def plan(settings: Mapping[str, Any], host: str) -> dict[str, Any]:
    """Return the plan.

    Raises:
        AnsibleFilterError: a value is of the wrong kind.
    """
    try:
        return grafana_plan(settings, host)
    except (AnsibleError, AttributeError, IndexError, KeyError, TypeError, ValueError) as exc:
        message = f"grafana_plan: {exc}"
        raise AnsibleFilterError(message) from exc


def boards(folder: str, target: str) -> list[dict[str, str]]:
    """Return the dashboards of a folder of the provisioning host, as entries for M(busbar.cluster.files).

    Raises:
        AnsibleFilterError: one cannot be read.
    """
    try:
        return [
            {"path": f"{target}/{path.name}", "content": path.read_text(encoding="utf-8")}
            for path in sorted(Path(folder).glob("*.json"))
        ]
    except (AnsibleError, OSError, TypeError, ValueError) as exc:
        message = f"grafana_dashboards: {exc}"
        raise AnsibleFilterError(message) from exc


class FilterModule:
    """The filters `busbar.cluster.grafana_plan` and `busbar.cluster.grafana_dashboards`."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filters by their names."""
        return {"grafana_plan": plan, "grafana_dashboards": boards}
