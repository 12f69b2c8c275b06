"""Filter that works out Slurm's configuration from the inventory."""

from __future__ import annotations

DOCUMENTATION = r"""
name: slurm_plan
author: busbar contributors
short_description: Slurm's configuration from the inventory
description:
  - Works out the lines of slurm.conf, gres.conf and topology.conf for all compute nodes of the inventory, whatever the
    run is limited to. Reads variables only, never facts.
  - Lines are folded, so that a thousand equal nodes make one line.
options:
  _input:
    description: Names of the compute nodes.
    type: list
    elements: str
    required: true
  hostvars:
    description: Variables of all hosts.
    type: dict
    required: true
  declared:
    description:
      - What is declared for the cluster, with the keys C(catalogue), C(controllers), C(databases), C(logins),
        C(partitions), C(groups), C(config), C(own), C(topology), C(accounting), C(health), C(job_scripts),
        C(state_shared) and C(state_directory).
      - C(own) are the role's keys of slurm.conf; those of C(config), the site's, take their place.
    type: dict
    required: true
"""

EXAMPLES = r"""
plan: "{{ groups['slurm_compute'] | busbar.cluster.slurm_plan(hostvars, declared) }}"
"""

RETURN = r"""
_value:
  description:
    - C(problems) is a list as the filter C(problem_report) takes it; when it is not empty the rest is left out.
    - C(config), C(nodes), C(partitions), C(gres) and C(topology) are lists of lines.
    - C(plugins) are those by which nodes detect their GPUs, such as V(gpu_nvml); Slurm must have them.
  type: dict
"""

from typing import TYPE_CHECKING, Any

from ansible.errors import AnsibleError, AnsibleFilterError

from ..module_utils.slurm.conf import (
    Node,
    config_lines,
    default_mem_per_cpu,
    gpu_plugins,
    gpu_types,
    gres_lines,
    inventory_node,
    merge_config,
    node_lines,
    partition_lines,
    topology_lines,
)
from ..module_utils.slurm.problems import slurm_problems

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    Declared = Mapping[str, Any]


def computed(nodes: Sequence[Node], declared: Declared) -> dict[str, Any]:
    """Return the keys of slurm.conf that follow from the nodes and from who does what."""
    catalogue = declared["catalogue"]
    types = gpu_types(nodes, catalogue)
    tres = ["gres/gpu", *(f"gres/gpu:{name}" for name in types if name)] if types else None
    accounting = bool(declared["databases"])
    kind = None
    if declared["topology"]:
        kind = "topology/block" if declared["topology"].get("blocks") else "topology/tree"
    return {
        "SlurmctldHost": list(declared["controllers"]),
        "GresTypes": "gpu" if types else None,
        "DefMemPerCPU": default_mem_per_cpu(nodes, catalogue),
        "TopologyPlugin": kind,
        "AccountingStorageType": "accounting_storage/slurmdbd" if accounting else None,
        "AccountingStorageHost": declared["databases"][0] if accounting else None,
        "AccountingStorageBackupHost": declared["databases"][1] if len(declared["databases"]) > 1 else None,
        "AccountingStorageTRES": tres if accounting else None,
        "AccountingStorageEnforce": "associations,limits,qos,safe" if accounting else None,
        **health_keys(declared.get("health") or {"when": "never"}, has_gpus=bool(types)),
    }


def health_keys(health: Mapping[str, Any], *, has_gpus: bool) -> dict[str, Any]:
    """Return the keys of slurm.conf that let Slurm look at its nodes."""
    if health["when"] == "never" or (health["when"] == "auto" and not has_gpus):
        return {}
    return {
        "HealthCheckProgram": health["program"],
        "HealthCheckInterval": int(health["interval"]),
        "HealthCheckNodeState": list(health["states"]),
    }


def slurm_plan(names: Sequence[str], hostvars: Mapping[str, Any], declared: Declared) -> dict[str, list[Any]]:
    """Return the plan.

    Raises:
        AnsibleFilterError: a variable of a host cannot be worked out, or a value is of the wrong kind.
    """
    try:
        nodes = [inventory_node(name, hostvars[name]) for name in names]
        own, config = declared["own"], declared["config"]
        given = {key: value for key, value in declared.items() if key != "own"}
        problems = slurm_problems(nodes=nodes, **given)
        if problems:
            return {"problems": list(problems)}
        merged = merge_config(merge_config(own, computed(nodes, declared)), config)
        return {
            "problems": [],
            "config": config_lines(merged),
            "nodes": node_lines(nodes, declared["catalogue"]),
            "partitions": partition_lines(declared["partitions"], declared["groups"], names),
            "gres": gres_lines(nodes, declared["catalogue"]),
            "topology": topology_lines(declared["topology"]),
            "plugins": gpu_plugins(nodes, declared["catalogue"]),
        }
    except (AnsibleError, KeyError, TypeError, ValueError) as exc:
        message = f"slurm_plan: {exc}"
        raise AnsibleFilterError(message) from exc


class FilterModule:
    """The filter `busbar.cluster.slurm_plan`."""

    def filters(self) -> dict[str, Callable[..., object]]:
        """Return the filter by name."""
        return {"slurm_plan": slurm_plan}
