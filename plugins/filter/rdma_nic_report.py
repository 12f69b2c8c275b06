"""Filter that tells of declared RDMA NICs that are missing."""

from __future__ import annotations

DOCUMENTATION = r"""
name: rdma_nic_report
author: busbar contributors
short_description: Declared RDMA NICs that are missing, as text
description: Declared RDMA NICs that are missing, as text.
positional: host, facts
options:
  _input:
    description: The C(nics) of the host's hardware profile.
    type: list
    elements: dict
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
missing: "{{ rdma_nics | busbar.cluster.rdma_nic_report(inventory_hostname, found.rdma) }}"
"""

RETURN = r"""
_value:
  description: The problems as text; empty when all are there.
  type: str
"""

from typing import TYPE_CHECKING, Any

from ..module_utils.common.problem_report import problem_report
from ..module_utils.nvidia.rdma_plan import nic_problems
from ..plugin_utils.border import Filters, border

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def report(nics: Sequence[Mapping[str, Any]], host: str, facts: Mapping[str, Any]) -> str:
    """Return the missing NICs as text."""
    return problem_report(nic_problems(host, nics, facts))


class FilterModule:
    """The filter `busbar.cluster.rdma_nic_report`."""

    def filters(self) -> Filters:
        """Return the filter by its name."""
        return {"rdma_nic_report": border(report)}
