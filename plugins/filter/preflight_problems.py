"""Filter that compares what nodes are with what the inventory says."""

from __future__ import annotations

DOCUMENTATION = r"""
name: preflight_problems
author: busbar contributors
short_description: Nodes that are not what the inventory says
description: Nodes that are not what the inventory says.
options:
  _input:
    description: Names of the hosts.
    type: list
    elements: str
    required: true
  hostvars:
    description: Variables of all hosts.
    type: dict
    required: true
  answer:
    description:
      - Name of the variable that holds a host's answer of M(busbar.cluster.node_info).
      - A host without it, or one that was left out of the run, is passed over.
    type: str
    required: true
  site:
    description:
      - C(catalogue), the known hardware by name, the declared C(users) and C(groups), and C(compute), the nodes of
        Slurm.
    type: dict
    required: true
  limits:
    description: C(systems), C(architectures), C(clock_s), C(free_mb), C(gpu_tolerance), C(driver_branch).
    type: dict
    required: true
  gpu_answer:
    description:
      - Name of the variable that holds a host's answer of M(busbar.cluster.nvidia_gpu_info).
      - The GPUs and NICs of a host without it are not compared.
    type: str
    default: ""
"""

EXAMPLES = r"""
- name: Show what is wrong
  ansible.builtin.debug:
    msg: "{{ ansible_play_hosts | busbar.cluster.preflight_problems(hostvars, 'node', site, limits) }}"
"""

RETURN = r"""
_value:
  description: The problems, each with C(hosts), C(key), C(problem), C(remedy).
  type: list
  elements: dict
"""

from typing import TYPE_CHECKING, Any

from ..module_utils.access.account_problems import account_conflicts
from ..module_utils.hardware.gpu_claims import claim_problems
from ..module_utils.hardware.gpu_cures import cures_of_run, manages_subnet, without_cured
from ..module_utils.hardware.gpu_places import place_problems
from ..module_utils.hardware.nvlink_domains import domain_claims
from ..module_utils.preflight.nodes import node_problems
from ..module_utils.preflight.software import node_software_problems
from ..plugin_utils.border import Filters, border

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..module_utils.common.problems import Problem


def problems(  # noqa: PLR0913, PLR0917 - a filter's arguments
    hosts: list[str],
    hostvars: Mapping[str, Mapping[str, Any]],
    answer: str,
    site: Mapping[str, Any],
    limits: Mapping[str, Any],
    gpu_answer: str = "",
) -> list[Problem]:
    """Return the problems of all nodes."""
    wrong = []
    manager = manages_subnet(hostvars, site["compute"])
    for host in hosts:
        variables = hostvars[host]
        found = variables.get(answer)
        if found and not found.get("unreachable"):
            hardware = site["catalogue"].get(variables.get("hardware") or "")
            wrong += node_problems(host, found, hardware, limits)
            if found.get("reached"):
                node = found["node"]
                wrong += account_conflicts(host, site["users"], site["groups"], node["users"], node["groups"])
                if host in site["compute"]:
                    wrong += node_software_problems(host, variables, hardware, node["programs"])
            gpus = variables.get(gpu_answer) or {}
            if hardware and "smi_state" in gpus:
                cures = cures_of_run(variables, gets_driver=host in site["compute"], subnet_manager=manager)
                cured = without_cured(gpus, cures)
                wrong += claim_problems(host, hardware, cured, limits) + place_problems(host, hardware, gpus)
    read = {host: hostvars[host].get(gpu_answer) or {} for host in hosts}
    return wrong + domain_claims({host: str(hostvars[host].get("nvlink_domain") or "") for host in hosts}, read)


class FilterModule:
    """The filter `busbar.cluster.preflight_problems`."""

    def filters(self) -> Filters:
        """Return the filter by its name."""
        return {"preflight_problems": border(problems)}
