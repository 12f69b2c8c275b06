"""Filter over the pure functions of GPUDirect."""

from __future__ import annotations

DOCUMENTATION = r"""
name: gpudirect_plan
author: busbar contributors
short_description: How RDMA is to reach the memory of GPUs on a host
description:
  - Chooses between dma-buf and nvidia_peermem, says why, and what of the PCI bus slows it down.
options:
  _input:
    description: C(auto), C(dmabuf), C(nvidia_peermem) or C(none).
    type: str
    required: true
  facts:
    description: What M(busbar.cluster.gpudirect_info) returned as C(gpudirect).
    type: dict
    required: true
  rdma:
    description: Whether the hardware declares RDMA NICs.
    type: bool
    required: true
"""

EXAMPLES = r"""
plan: "{{ 'auto' | busbar.cluster.gpudirect_plan(found.gpudirect, true) }}"
"""

RETURN = r"""
_value:
  description:
    - C(mode), empty when it cannot be known yet, with its C(reason); C(problem) and C(remedy), empty when there is
      none; C(notes).
  type: dict
"""

from typing import TYPE_CHECKING, Any

from ..module_utils.nvidia.gpudirect import bus_notes, choose_mode
from ..plugin_utils.border import Filters, border

if TYPE_CHECKING:
    from collections.abc import Mapping


def plan(wanted: str, facts: Mapping[str, Any], rdma: bool) -> dict[str, Any]:  # noqa: FBT001 - as Jinja calls it
    """Return the plan."""
    return {**choose_mode(wanted, {**facts, "rdma": rdma}), "notes": bus_notes(facts)}


class FilterModule:
    """The filter `busbar.cluster.gpudirect_plan`."""

    def filters(self) -> Filters:
        """Return the filter by its name."""
        return {"gpudirect_plan": border(plan)}
