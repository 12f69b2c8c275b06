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

from ansible.errors import AnsibleError, AnsibleFilterError

from ..module_utils.common.problems import problem_report
from ..module_utils.nvidia.rdma_plan import nic_problems, rdma_plan
from ..module_utils.nvidia.rdma_problems import address_problems

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


def plan(declared: Mapping[str, Any], host: str, facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return the plan.

    Raises:
        AnsibleFilterError: a value is of the wrong kind.
    """
    try:
        return rdma_plan(host, declared, facts)
    except (AnsibleError, AttributeError, KeyError, TypeError, ValueError) as exc:
        message = f"rdma_plan: {exc}"
        raise AnsibleFilterError(message) from exc


def nic_report(nics: Sequence[Mapping[str, Any]], host: str, facts: Mapping[str, Any]) -> str:
    """Return the declared NICs that are missing, as text; '' when all are there.

    Raises:
        AnsibleFilterError: a value is of the wrong kind.
    """
    try:
        return problem_report(nic_problems(host, nics, facts))
    except (AnsibleError, KeyError, TypeError, ValueError) as exc:
        message = f"rdma_nic_report: {exc}"
        raise AnsibleFilterError(message) from exc


def address_report(hosts: Sequence[str], hostvars: Mapping[str, Any]) -> str:
    """Return addresses of IP over InfiniBand that two hosts have, as text; '' when there are none.

    Raises:
        AnsibleFilterError: a variable of a host cannot be worked out.
    """
    try:
        interfaces = {host: hostvars[host].get("rdma_ipoib_interfaces") or [] for host in hosts}
        taken = {host: hostvars[host].get("ansible_host", "") for host in hosts} if any(interfaces.values()) else {}
        return problem_report(address_problems(interfaces, taken))
    except (AnsibleError, AttributeError, KeyError, TypeError) as exc:
        message = f"rdma_address_report: {exc}"
        raise AnsibleFilterError(message) from exc


class FilterModule:
    """The filters `busbar.cluster.rdma_plan`, `rdma_nic_report` and `rdma_address_report`."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filters by their names."""
        return {"rdma_plan": plan, "rdma_nic_report": nic_report, "rdma_address_report": address_report}
