"""Filter that lists Prometheus' files of rules."""

from __future__ import annotations

DOCUMENTATION = r"""
name: prometheus_rule_files
author: busbar contributors
short_description: Files of rules for Prometheus
description: Files of rules for Prometheus.
positional: site, found, alerts
options:
  _input:
    description: Folder on this machine that holds the files which busbar ships.
    type: path
    required: true
  site:
    description: The site's own groups of rules, by name of the file.
    type: dict
    required: true
  found:
    description: Paths of the files that are on the host.
    type: list
    elements: str
    default: []
  alerts:
    description: The site's changes to alerts, by the alert's name.
    type: dict
    default: {}
"""

EXAMPLES = r"""
files: "{{ (role_path ~ '/files/rules') | busbar.cluster.prometheus_rule_files(prometheus_rules) }}"
"""

RETURN = r"""
_value:
  description: Entries for M(busbar.cluster.files), without a command that validates them.
  type: list
  elements: dict
"""

from typing import TYPE_CHECKING, Any

from ..module_utils.monitoring.prometheus_rules import rule_files, shipped_rules
from ..plugin_utils.border import Filters, border

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


def files(
    folder: str, site: Mapping[str, list[Any]], found: Iterable[str] = (), alerts: Mapping[str, Any] | None = None
) -> list[dict[str, str]]:
    """Return the files."""
    return rule_files(shipped_rules(folder), plain(site), found, plain(alerts or {}))


def plain(value: Any) -> Any:  # noqa: ANN401 - data is what it is
    """Return data in Python's own types: Ansible's carry tags that YAML's safe writer does not know."""
    if isinstance(value, dict):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(each) for each in value]
    for kind in (bool, int, float, str):
        if isinstance(value, kind):
            return value if kind is bool else kind(value)
    return value


class FilterModule:
    """The filter `busbar.cluster.prometheus_rule_files`."""

    def filters(self) -> Filters:
        """Return the filter by its name."""
        return {"prometheus_rule_files": border(files)}
