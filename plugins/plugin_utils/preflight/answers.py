"""What the answers of all nodes say against the inventory, and what of them is worth a look."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...module_utils.access.account_problems import account_conflicts
from ...module_utils.hardware.gpu_claims import claim_problems
from ...module_utils.hardware.gpu_places import place_problems
from ..hardware.gpu_cures import cures_of_run, manages_subnet, without_cured
from ..hardware.nvlink_domains import domain_claims
from ..nvidia.driver_problems import site_driver_problems
from .advice import node_advice
from .nodes import name_problems, node_problems
from .releases import driver_system, release_problems
from .software import node_software_problems

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ...module_utils.common.problems import Problem

__all__ = ["answer_advice", "answer_problems"]


def answer_problems(  # noqa: PLR0913, PLR0917 - what a filter is given
    hosts: Sequence[str],
    hostvars: Mapping[str, Mapping[str, Any]],
    answer: str,
    site: Mapping[str, Any],
    limits: Mapping[str, Any],
    gpu_answer: str = "",
) -> list[Problem]:
    """Return how nodes differ from what the inventory says of them.

    Args:
        hosts: their names.
        hostvars: the variables of all hosts.
        answer: the variable with a host's answer of the module node_info; a host without it is passed over.
        site: `catalogue`, the declared `users` and `groups`, `compute`, the nodes of Slurm, and `inventory_groups`, the
            hosts of every group.
        limits: as `node_problems` and `claim_problems` take them.
        gpu_answer: the variable with a host's answer of the module nvidia_gpu_info.
    """
    wrong = []
    systems = {}
    groups = {name: set(members) for name, members in (site.get("inventory_groups") or {}).items()}
    manager = manages_subnet(hostvars, site["compute"])
    for host in hosts:
        variables = hostvars[host]
        found = variables.get(answer)
        if found and not found.get("unreachable"):
            hardware = site["catalogue"].get(variables.get("hardware") or "")
            wrong += node_problems(host, found, hardware, limits)
            if found.get("reached"):
                node = found["node"]
                wrong += name_problems(host, node, str(variables.get("hosts_name") or host))
                wrong += account_conflicts(host, site["users"], site["groups"], node["users"], node["groups"])
                wrong += release_problems(host, variables, node, groups)
                systems[host] = driver_system(node["os"])
                if host in site["compute"]:
                    wrong += node_software_problems(host, variables, hardware, node["programs"], node["os"]["id"])
            gpus = variables.get(gpu_answer) or {}
            if hardware and "smi_state" in gpus:
                cures = cures_of_run(variables, gets_driver=host in site["compute"], subnet_manager=manager)
                cured = without_cured(gpus, cures)
                wrong += claim_problems(host, hardware, cured, limits) + place_problems(host, hardware, gpus)
    asked = [host for host in site["compute"] if host in systems]
    wrong += site_driver_problems(asked, hostvars, site["catalogue"], systems)
    read = {host: hostvars[host].get(gpu_answer) or {} for host in hosts}
    return wrong + domain_claims({host: str(hostvars[host].get("nvlink_domain") or "") for host in hosts}, read)


def answer_advice(hosts: Sequence[str], hostvars: Mapping[str, Mapping[str, Any]], answer: str) -> list[Problem]:
    """Return what is worth a look on all nodes; a host without an answer is passed over."""
    answers = {host: hostvars[host].get(answer) or {} for host in hosts}
    return [each for host, found in answers.items() for each in node_advice(host, found.get("node") or {})]
