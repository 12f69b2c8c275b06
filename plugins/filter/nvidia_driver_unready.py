"""Filter over the pure function of the same name."""

from __future__ import annotations

DOCUMENTATION = r"""
name: nvidia_driver_unready
author: busbar contributors
short_description: Why the NVIDIA driver of a host cannot be used yet
description: Why the NVIDIA driver of a host cannot be used yet.
options:
  _input:
    description: The host's entry of the hardware catalogue.
    type: dict
    required: true
  version:
    description: The driver's version that the host should run.
    type: str
    required: true
  found:
    description: What M(busbar.cluster.nvidia_driver_info) returned.
    type: dict
    required: true
  gpus:
    description: What M(busbar.cluster.nvidia_gpu_info) returned.
    type: dict
    required: true
  fabric_manager:
    description: Whether the host has a fabric manager, which all GPUs must have joined.
    type: bool
    default: false
"""

EXAMPLES = r"""
unready: "{{ hardware | busbar.cluster.nvidia_driver_unready('580.95.05', found, gpus, fabric_manager=true) }}"
"""

RETURN = r"""
_value:
  description: The reasons, an empty list when the driver runs with all GPUs.
  type: list
  elements: str
"""

from typing import TYPE_CHECKING, Any

from ..module_utils.nvidia.driver_state import unready_reasons
from ..plugin_utils.border import Filters, border

if TYPE_CHECKING:
    from collections.abc import Mapping


def unready(
    hardware: Mapping[str, Any],
    version: str,
    found: Mapping[str, Any],
    gpus: Mapping[str, Any],
    *,
    fabric_manager: bool = False,
) -> list[str]:
    """Return the reasons."""
    return unready_reasons(hardware, version, found, gpus, fabric_manager=fabric_manager)


class FilterModule:
    """The filter `busbar.cluster.nvidia_driver_unready`."""

    def filters(self) -> Filters:
        """Return the filter by its name."""
        return {"nvidia_driver_unready": border(unready)}
