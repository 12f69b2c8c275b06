"""Filter that tells of addresses of IP over InfiniBand that two hosts have."""

from __future__ import annotations

DOCUMENTATION = r"""
name: rdma_address_report
author: busbar contributors
short_description: Addresses of IP over InfiniBand that two hosts have, as text
description: Addresses of IP over InfiniBand that two hosts have, as text.
positional: hostvars
options:
  _input:
    description: The hosts.
    type: list
    elements: str
    required: true
  hostvars:
    description: Variables of all hosts.
    type: dict
    required: true
"""

EXAMPLES = r"""
shared: "{{ rdma_hosts | busbar.cluster.rdma_address_report(hostvars) }}"
"""

RETURN = r"""
_value:
  description: The problems as text; empty when there are none.
  type: str
"""

from typing import TYPE_CHECKING, Any

from ..module_utils.common.problem_report import problem_report
from ..module_utils.nvidia.rdma_problems import address_problems
from ..plugin_utils.border import Filters, border

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def report(hosts: Sequence[str], hostvars: Mapping[str, Any]) -> str:
    """Return the shared addresses as text."""
    interfaces = {host: hostvars[host].get("rdma_ipoib_interfaces") or [] for host in hosts}
    taken = {host: hostvars[host].get("ansible_host", "") for host in hosts} if any(interfaces.values()) else {}
    return problem_report(address_problems(interfaces, taken))


class FilterModule:
    """The filter `busbar.cluster.rdma_address_report`."""

    def filters(self) -> Filters:
        """Return the filter by its name."""
        return {"rdma_address_report": border(report)}
