"""Checks whether the nodes match the inventory, and whether the provisioning host has the secrets of the cluster."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from ...plugins.module_utils.access.account_problems import account_conflicts
from ...plugins.module_utils.common.kernels import newer_kernel
from ...plugins.module_utils.common.package_fixes import unfixed_packages
from ...plugins.module_utils.common.problems import advice, make_problem
from ...plugins.module_utils.hardware.gpu_sockets import place_problems
from ...plugins.module_utils.hardware.hardware_profile_check import claim_problems
from ...plugins.plugin_utils.access.held_secrets import held_problems
from ...plugins.plugin_utils.engine.catalogue.profile_check import floor_advice
from ...plugins.plugin_utils.hardware.gpu_repairs import manages_subnet, repairs_of_run, without_repaired_faults
from ...plugins.plugin_utils.hardware.nvlink_domains import domain_claims
from ...plugins.plugin_utils.nvidia.driver_problems import site_driver_problems
from ...plugins.plugin_utils.preflight.nodes import name_problems, node_problems
from ...plugins.plugin_utils.preflight.releases import driver_system, release_problems
from ...plugins.plugin_utils.preflight.software import node_software_problems
from ...plugins.plugin_utils.role_checks import Known, Problem

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence


_FIXES = Path(__file__).parents[2] / "plugins/plugin_utils/preflight/package_fixes.yml"


@cache
def package_fixes() -> Mapping[str, Any]:
    """Return the content of package_fixes.yml."""
    found: Mapping[str, Any] = yaml.safe_load(_FIXES.read_text(encoding="utf-8"))
    return found


def node_advice(host: str, node: Mapping[str, Any]) -> list[Problem]:
    """Return the warnings about one node.

    Args:
        host: name of the host.
        node: `node` of the node_info module: `os`, `kernel`, `kernels` and `versions`.
    """
    unfixed = [
        make_problem([host], each.name, each.problem, each.remedy)
        for each in unfixed_packages(package_fixes(), node.get("os") or {}, node.get("versions") or {})
    ]
    return [*unfixed, *_kernel(host, node)]


def _kernel(host: str, node: Mapping[str, Any]) -> Iterator[Problem]:
    running = str(node.get("kernel") or "")
    newer = newer_kernel(running, node.get("kernels") or [])
    if newer:
        problem = f"{running} is running, but {newer} is installed and requires a reboot"
        yield make_problem([host], "kernel", problem, "drain the node and reboot it")


def check_nodes(hosts: Sequence[str], cluster: Known) -> list[Problem]:
    """Return the differences between nodes and the inventory.

    Args:
        hosts: names of the nodes.
        cluster: `hostvars` of all hosts; `answer`, the variable with a host's result of the module node_info (hosts
            without it are skipped); `site`, with `catalogue`, the declared `users` and `groups`, `compute`, the Slurm
            nodes, and `inventory_groups`, the hosts of every group; and `limits` for `node_problems` and
            `claim_problems`.
    """
    hostvars, site, limits = cluster["hostvars"], cluster["site"], cluster["limits"]
    wrong = []
    systems = {}
    groups = {name: set(members) for name, members in (site.get("inventory_groups") or {}).items()}
    manager = manages_subnet(hostvars, site["compute"])
    for host in hosts:
        variables = hostvars[host]
        found = variables.get(cluster["answer"])
        if found and not found.get("unreachable"):
            hardware = site["catalogue"].get(variables.get("hardware") or "")
            wrong += node_problems(host, found, hardware, limits)
            if found.get("reached"):
                node = found["node"]
                wrong += name_problems(host, node, str(variables.get("hosts_name") or host))
                wrong += account_conflicts(host, site["users"], site["groups"], node["users"], node["groups"])
                wrong += release_problems(host, variables, node, groups)
                systems[host] = driver_system(node)
                if host in site["compute"]:
                    wrong += node_software_problems(host, variables, hardware, node["programs"], node["os"]["id"])
            gpus = found.get("devices") or {}
            if hardware and "smi_state" in gpus:
                repaired = repairs_of_run(variables, gets_driver=host in site["compute"], subnet_manager=manager)
                remaining = without_repaired_faults(gpus, repaired)
                wrong += claim_problems(host, hardware, remaining, limits) + place_problems(host, hardware, gpus)
    reached = [host for host in site["compute"] if host in systems]
    wrong += site_driver_problems(reached, hostvars, site["catalogue"], systems)
    read = {host: (hostvars[host].get(cluster["answer"]) or {}).get("devices") or {} for host in hosts}
    return wrong + domain_claims({host: str(hostvars[host].get("nvlink_domain") or "") for host in hosts}, read)


def advise_on_nodes(hosts: Sequence[str], cluster: Known) -> list[Problem]:
    """Return outdated versions, and kernels that need a reboot; a host without an answer is skipped."""
    answers = {host: cluster["hostvars"][host].get(cluster["answer"]) or {} for host in hosts}
    return [advice(each) for host, found in answers.items() for each in node_advice(host, found.get("node") or {})]


def advise_on_floors(_: Known, cluster: Known) -> list[Problem]:
    """Return floors of hardware profiles that are so low that half the expected speed would pass."""
    return [advice(each) for each in floor_advice({name: each for name, each in cluster["catalogue"].items() if each})]


def check_blockers(options: Known, _: Known) -> list[Problem]:
    """Return the reasons why the site must not be provisioned."""
    remedy = "resolve it as described in ADOPTED.md, then remove the entry"
    return [make_problem([], "preflight_blockers", str(text), remedy) for text in options["preflight_blockers"]]


SITE_OPTIONS: dict[str, list[str]] = {"preflight_blockers": []}
INVENTORY = {"hardware, hardware_profiles_extra": advise_on_floors, "preflight_blockers": check_blockers}


def check_secrets(hosts: Sequence[str], cluster: Known) -> list[Problem]:
    """Return the secrets that exist on hosts but are missing on the provisioning host.

    Args:
        hosts: names of the hosts.
        cluster: `hostvars` of all hosts; `answer`, the variable with a host's result of the module secret_info;
            `controller`, with `name` and `answer` of a controller that is not part of the run; and `site`.
    """
    controller = cluster["controller"]
    answers = {host: cluster["hostvars"][host].get(cluster["answer"]) or {} for host in hosts}
    return held_problems(answers, (controller["name"], controller["answer"]), cluster["site"])
