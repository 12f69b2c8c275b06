"""Filter over the pure function of the same name."""

from __future__ import annotations

DOCUMENTATION = r"""
name: nvidia_driver_problems
author: busbar contributors
short_description: What is wrong with the NVIDIA driver that is declared for a host
description: What is wrong with the NVIDIA driver that is declared for a host.
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
    description: The host's C(distribution) and C(major) version, when they are known.
    type: dict
"""

EXAMPLES = r"""
problems: "{{ hardware | busbar.cluster.nvidia_driver_problems(inventory_hostname, settings) }}"
"""

RETURN = r"""
_value:
  description: The problems, each with C(hosts), C(key), C(problem), C(remedy).
  type: list
  elements: dict
"""

from typing import TYPE_CHECKING, Any

from ..module_utils.nvidia.driver_choice import driver_problems
from ..plugin_utils.border import Filters, border

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..module_utils.common.problems import Problem


def problems(
    hardware: Mapping[str, Any], host: str, settings: Mapping[str, Any], system: Mapping[str, str] | None = None
) -> list[Problem]:
    """Return the problems."""
    return driver_problems(host, hardware, settings, system)


class FilterModule:
    """The filter `busbar.cluster.nvidia_driver_problems`."""

    def filters(self) -> Filters:
        """Return the filter by its name."""
        return {"nvidia_driver_problems": border(problems)}
