# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""Filter over the pure function of the same name."""

from __future__ import annotations

DOCUMENTATION = r"""
name: alert_problems
author: busbar contributors
short_description: What is wrong with a site's changes to alerts
description: Names that no alert has, keys that cannot be changed, and values that Prometheus would not take.
positional: site, overrides, host
options:
  _input:
    description: Folder on this machine that holds the files of rules which busbar ships.
    type: path
    required: true
  site:
    description: The site's own groups of rules, by name of the file.
    type: dict
    required: true
  overrides:
    description: By the alert's name, any of C(enabled), C(for), C(severity), C(threshold).
    type: dict
    required: true
  host:
    description: Name of the host that they are for.
    type: str
    required: true
"""

EXAMPLES = r"""
wrong: "{{ (role_path ~ '/files/rules')
  | busbar.cluster.alert_problems(prometheus_rules, prometheus_alerts, inventory_hostname) }}"
"""

RETURN = r"""
_value:
  description: Problems as the filter C(problem_report) takes them.
  type: list
  elements: dict
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..module_utils.monitoring.alert_rules import alert_problems
from ..module_utils.monitoring.prometheus_rules import rules_of
from ..plugin_utils.border import Filters, border

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..module_utils.common.problems import Problem


def problems(folder: str, site: Mapping[str, list[Any]], overrides: Mapping[str, Any], host: str) -> list[Problem]:
    """Return the problems; the shipped rules are read only where there is anything to be judged by them."""
    if not overrides:
        return []
    shipped = {path.stem: path.read_text(encoding="utf-8") for path in sorted(Path(folder).glob("*.yml"))}
    return alert_problems(rules_of(shipped, site), overrides, host)


class FilterModule:
    """The filter `busbar.cluster.alert_problems`."""

    def filters(self) -> Filters:
        """Return the filter by its name."""
        return {"alert_problems": border(problems)}
