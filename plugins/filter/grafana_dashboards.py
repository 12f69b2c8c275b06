"""Filter that reads the dashboards of a folder."""

from __future__ import annotations

DOCUMENTATION = r"""
name: grafana_dashboards
author: busbar contributors
short_description: Dashboards of a folder of the provisioning host
description: Dashboards of a folder of the provisioning host.
positional: target
options:
  _input:
    description: The folder on the provisioning host.
    type: path
    required: true
  target:
    description: Directory of the host that is to have them.
    type: path
    required: true
"""

EXAMPLES = r"""
files: "{{ folder | busbar.cluster.grafana_dashboards(grafana_dashboards_dir) }}"
"""

RETURN = r"""
_value:
  description: The dashboards, as entries for M(busbar.cluster.files).
  type: list
  elements: dict
"""

from pathlib import Path

from ..plugin_utils.border import Filters, border


def boards(folder: str, target: str) -> list[dict[str, str]]:
    """Return the dashboards."""
    return [
        {"path": f"{target}/{path.name}", "content": path.read_text(encoding="utf-8")}
        for path in sorted(Path(folder).glob("*.json"))
    ]


class FilterModule:
    """The filter `busbar.cluster.grafana_dashboards`."""

    def filters(self) -> Filters:
        """Return the filter by its name."""
        return {"grafana_dashboards": border(boards)}
