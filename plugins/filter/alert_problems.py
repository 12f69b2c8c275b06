# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""Filter over the pure function of the same name."""

from __future__ import annotations

DOCUMENTATION = r"""
name: alert_problems
author: busbar contributors
short_description: What is wrong with a site's changes to alerts
options:
  _input:
    description: Content of Prometheus' rule files by name.
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
wrong: "{{ files | busbar.cluster.alert_problems(prometheus_alerts, inventory_hostname) }}"
"""

RETURN = r"""
_value:
  description: Problems as the filter C(problem_report) takes them.
  type: list
  elements: dict
"""

from typing import TYPE_CHECKING, Any

from ansible.errors import AnsibleFilterError

from ..module_utils.alert_rules import alert_problems  # noqa: TID252 - the collection's name stands in no import

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ..module_utils.problems import Problem  # noqa: TID252


def problems(files: Mapping[str, Any], overrides: Mapping[str, Any], host: str) -> list[Problem]:
    """Return the problems.

    Raises:
        AnsibleFilterError: when the input is no content of rule files.
    """
    try:
        return alert_problems(files, overrides, host)
    except (AttributeError, KeyError, TypeError) as exc:
        message = f"alert_problems: {exc!r}"
        raise AnsibleFilterError(message) from exc


class FilterModule:
    """The filter `busbar.cluster.alert_problems`."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filter by its name."""
        return {"alert_problems": problems}
