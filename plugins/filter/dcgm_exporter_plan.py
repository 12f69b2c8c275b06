"""Filter that says how dcgm-exporter runs on a host."""

from __future__ import annotations

DOCUMENTATION = r"""
name: dcgm_exporter_plan
author: busbar contributors
short_description: How dcgm-exporter runs on a host
description: How dcgm-exporter runs on a host.
positional: settings, host
options:
  _input:
    description: The C(gpu) of the host's hardware profile.
    type: dict
    required: true
  settings:
    description:
      - The options of the role C(dcgm_exporter) without its name, and C(architecture) and C(dcgm_source).
    type: dict
    required: true
  host:
    description: The host's name, for messages.
    type: str
    required: true
"""

EXAMPLES = r"""
plan: "{{ dcgm_exporter_hardware.gpu | busbar.cluster.dcgm_exporter_plan(settings, inventory_hostname) }}"
"""

RETURN = r"""
_value:
  description: C(problems), C(packages), C(files), C(pins), C(arguments) and C(counters), the text of their file.
  type: dict
"""

from ..module_utils.monitoring.dcgm_exporter_plan import dcgm_exporter_plan
from ..plugin_utils.border import Filters, border


class FilterModule:
    """The filter `busbar.cluster.dcgm_exporter_plan`."""

    def filters(self) -> Filters:
        """Return the filter by its name."""
        return {"dcgm_exporter_plan": border(dcgm_exporter_plan)}
