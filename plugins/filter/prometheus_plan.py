"""Filter that moves passwords from Prometheus's options to separate files, and merges its rules."""

from __future__ import annotations

DOCUMENTATION = r"""
name: prometheus_plan
author: busbar contributors (!UNKNOWN)
short_description: Check the options of Prometheus, and generate its secret and rule files
description: Checks the options of the role prometheus, moves their passwords to files, and merges the rules.
positional: host
options:
  _input:
    description: >-
      Options of the role C(prometheus) without its prefix, and C(rules_folder), the local folder with busbar's rule
      files.
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
    - C(problems), as for M(busbar.cluster.refuse).
    - C(jobs), C(scrape_access), C(scrape_extra), C(alertmanager_access) and C(remote_write), without their passwords.
    - C(secrets), content of each secret file by path; and C(confidential), whether the options still contain passwords
      that Prometheus cannot read from a file.
    - C(rules), the rule files as entries for M(busbar.cluster.templates), empty if there are problems.
  type: dict
"""

from typing import TYPE_CHECKING, Any

from ..plugin_utils.ansible_errors import filter_module
from ..plugin_utils.monitoring.prometheus_plan import (
    host_problems,
    prometheus_plan,
    rule_files,
    shipped_alert_problems,
    shipped_rules,
)

if TYPE_CHECKING:
    from collections.abc import Mapping


# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0


def untagged(value: Any) -> Any:  # noqa: ANN401 - arbitrary data
    """Return data in plain Python types, which YAML's safe dumper requires."""
    if isinstance(value, dict):
        return {str(key): untagged(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [untagged(each) for each in value]
    for kind in (bool, int, float, str):
        if isinstance(value, kind):
            return value if kind is bool else kind(value)
    return value


def plan(settings: Mapping[str, Any], host: str) -> dict[str, Any]:
    """Return Prometheus's configuration, the problems, and the merged rule files."""
    folder, site, alerts = settings["rules_folder"], untagged(settings["rules"]), untagged(settings["alerts"])
    problems = host_problems(settings, host) + shipped_alert_problems(folder, site, alerts, host)
    rules = [] if problems else rule_files(shipped_rules(folder), site, alerts)
    return {**prometheus_plan(settings), "problems": problems, "rules": rules}


FilterModule = filter_module("prometheus_plan", plan)
