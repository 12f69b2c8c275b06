"""Filters over the pure functions of the same name."""

from __future__ import annotations

DOCUMENTATION = r"""
name: rdma_plan
author: busbar contributors
short_description: What is to be done with the RDMA devices of a host
description:
  - Works out files, modules and interfaces from what is declared and what is there, or why nothing may be done.
options:
  _input:
    description:
      - What is declared, with the keys C(source), C(naming), C(names), C(interface_names), C(modules), C(memlock),
        C(kernel_managed), C(ipoib), C(networks), C(opensm), C(roce_mode) and C(roce_tos).
    type: dict
    required: true
  host:
    description: Name of the host.
    type: str
    required: true
  facts:
    description: What M(busbar.cluster.rdma_info) returned as C(rdma).
    type: dict
    required: true
"""

EXAMPLES = r"""
plan: "{{ declared | busbar.cluster.rdma_plan(inventory_hostname, found.rdma) }}"
"""

RETURN = r"""
_value:
  description:
    - C(problems), as the filter C(problem_report) takes them; when there are any, nothing else is returned.
    - C(files), C(load), C(apply), C(skipped), C(notes).
  type: dict
"""

from typing import TYPE_CHECKING, Any

from ..module_utils.nvidia.rdma_plan import rdma_plan
from ..plugin_utils.border import Filters, border

if TYPE_CHECKING:
    from collections.abc import Mapping


def plan(declared: Mapping[str, Any], host: str, facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return the plan."""
    return rdma_plan(host, declared, facts)


class FilterModule:
    """The filter `busbar.cluster.rdma_plan`."""

    def filters(self) -> Filters:
        """Return the filter by its name."""
        return {"rdma_plan": border(plan)}
