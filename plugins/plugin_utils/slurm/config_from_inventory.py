"""Derive slurm.conf, gres.conf and topology.conf from the inventory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .cluster_problems import slurm_problems
from .combined_job_scripts import script_keys
from .conf_lines import (
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
from .idle_checks_partition import checks_keys, with_checks_partition

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    Declared = Mapping[str, Any]


def _computed(nodes: Sequence[Node], declared: Declared) -> dict[str, Any]:
    """Return the keys of slurm.conf that depend on the nodes, controllers and databases."""
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
        **checks_keys(declared.get("checks_partition") or ""),
        **_health_keys(declared.get("health") or {"when": "never"}, has_gpus=bool(types)),
    }


def _health_keys(health: Mapping[str, Any], *, has_gpus: bool) -> dict[str, Any]:
    """Return the health check keys of slurm.conf."""
    if health["when"] == "never" or (health["when"] == "auto" and not has_gpus):
        return {}
    return {
        "HealthCheckProgram": health["program"],
        "HealthCheckInterval": int(health["interval"]),
        "HealthCheckNodeState": list(health["states"]),
    }


def slurm_plan(names: Sequence[str], hostvars: Mapping[str, Any], declared: Declared) -> dict[str, list[Any]]:
    """Return the problems, or the lines of Slurm's configuration files.

    Args:
        names: the compute nodes.
        hostvars: variables of all hosts.
        declared: as documented for the `slurm_plan` filter.
    """
    nodes = [inventory_node(name, hostvars[name]) for name in names]
    own, config = declared["own"], declared["config"]
    given = {key: value for key, value in declared.items() if key not in {"own", "scripts_folder"}}
    problems = slurm_problems(nodes=nodes, **given)
    if problems:
        return {"problems": list(problems)}
    scripts = script_keys(declared.get("job_scripts") or {}, str(declared.get("scripts_folder") or ""))
    merged = merge_config(merge_config({**own, **scripts}, _computed(nodes, declared)), config)
    partitions = with_checks_partition(declared["partitions"], declared.get("checks_partition") or "", config)
    return {
        "problems": [],
        "config": config_lines(merged),
        "nodes": node_lines(nodes, declared["catalogue"]),
        "partitions": partition_lines(partitions, declared["groups"], names),
        "gres": gres_lines(nodes, declared["catalogue"]),
        "topology": topology_lines(declared["topology"]),
        "plugins": gpu_plugins(nodes, declared["catalogue"]),
    }
