"""Filter over the pure function of the same name."""

from __future__ import annotations

DOCUMENTATION = r"""
name: nvidia_driver_plan
author: busbar contributors
short_description: What has to be done on a host so that it has the declared NVIDIA driver
description: What has to be done on a host so that it has the declared NVIDIA driver.
options:
  _input:
    description: The host's entry of the hardware catalogue.
    type: dict
    required: true
  host:
    description: Name of the host.
    type: str
    required: true
  settings:
    description: The options of the role nvidia_driver, without its prefix.
    type: dict
    required: true
  system:
    description: The host's C(distribution), C(major) version, and whether it is a C(container).
    type: dict
    required: true
  found:
    description: What M(busbar.cluster.nvidia_driver_info) returned. Without it only the packages' names are told.
    type: dict
"""

EXAMPLES = r"""
plan: "{{ hardware | busbar.cluster.nvidia_driver_plan(inventory_hostname, settings, system, found) }}"
"""

RETURN = r"""
_value:
  description: C(names), C(family), C(branch), C(modules), and with what was found all that is to be done.
  type: dict
"""

from typing import TYPE_CHECKING, Any

from ..module_utils.nvidia.driver_plan import driver_plan
from ..plugin_utils.border import Filters, border

if TYPE_CHECKING:
    from collections.abc import Mapping


def plan(
    hardware: Mapping[str, Any],
    host: str,
    settings: Mapping[str, Any],
    system: Mapping[str, Any],
    found: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Return the plan."""
    return driver_plan(host, hardware, settings, system, found)


class FilterModule:
    """The filter `busbar.cluster.nvidia_driver_plan`."""

    def filters(self) -> Filters:
        """Return the filter by its name."""
        return {"nvidia_driver_plan": border(plan)}
