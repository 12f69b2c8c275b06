"""Generate the lines of slurm.conf, gres.conf, cgroup.conf and topology.conf from the inventory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypedDict

from ...module_utils.nvidia.mig_layouts import gres_counts
from ..engine.catalogue.builtin_profiles import unknown_hardware
from ..engine.catalogue.gres_conf import gres_conf, gres_mode
from ..engine.common.hostlist import fold_for_slurm, unfold_hosts

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    Profile = Mapping[str, Any]
    Catalogue = Mapping[str, Profile]

# Keys of slurm.conf that may be repeated; for other keys, lists are joined by commas.
REPEATED = frozenset(
    {
        *("downnodes", "frontendname", "include", "nodename", "nodeset", "partitionname", "slurmctldhost"),
        # Since Slurm 24.05.
        *("epilog", "epilogslurmctld", "prolog", "prologslurmctld"),
    }
)


class Node(TypedDict):
    """The inventory variables of a compute node."""

    name: str
    hardware: str | None
    features: list[str]
    weight: int | None
    params: dict[str, Any]
    mig: Any
    gres_mode: str | None


def inventory_node(name: str, variables: Mapping[str, Any]) -> Node:
    """Return the host variables that Slurm's configuration needs."""
    weight = variables.get("slurm_node_weight")
    hardware = variables.get("hardware")
    return {
        "name": name,
        "hardware": None if hardware is None else str(hardware),
        "features": [str(feature) for feature in variables.get("slurm_node_features") or []],
        "weight": None if weight is None else int(weight),
        "params": dict(variables.get("slurm_node_params") or {}),
        "mig": variables.get("mig_layout"),
        "gres_mode": variables.get("slurm_gres_mode"),
    }


def merge_config(own: Mapping[str, Any], site: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keys of `own`, overridden by `site`; a null value removes a key. Keys are case-insensitive."""
    names = {key.lower(): key for key in own}
    merged = dict(own)
    for key, value in site.items():
        merged.pop(names.get(key.lower(), key), None)
        names[key.lower()] = key
        merged[key] = value
    return {key: value for key, value in merged.items() if value is not None}


def config_lines(config: Mapping[str, Any]) -> list[str]:
    """Return `Key=value` lines; lists are joined by commas, or become several lines for repeatable keys.

    Raises:
        ValueError: if a value is a mapping or contains a line break.
    """
    lines = []
    for key, value in config.items():
        if isinstance(value, (list, tuple)) and key.lower() in REPEATED:
            lines += [f"{key}={_text(key, item)}" for item in value]
        elif isinstance(value, (list, tuple)):
            lines.append(f"{key}={','.join(_text(key, item) for item in value)}")
        else:
            lines.append(f"{key}={_text(key, value)}")
    return lines


def _text(key: str, value: object) -> str:
    """Return a value in slurm.conf syntax."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (dict, list, tuple)) or "\n" in str(value):
        message = f"{key}: {value!r} must be one line of text, a number, a boolean or a list of these"
        raise ValueError(message)
    return str(value)


def profile_of(node: Node, catalogue: Catalogue) -> Profile:
    """Return the hardware profile of a node.

    Raises:
        ValueError: if its hardware is unknown.
    """
    found = catalogue.get(node["hardware"]) if node["hardware"] else None
    if found is None:
        problem, remedy = unknown_hardware(node["hardware"], catalogue)
        message = f"{node['name']}: hardware: {problem}. Remedy: {remedy}."
        raise ValueError(message)
    return found


def cpus_of(profile: Profile) -> int:
    """Return the number of hardware threads of a node."""
    return int(profile["sockets"]) * int(profile["cores_per_socket"]) * int(profile["threads_per_core"])


def node_mig(node: Node, profile: Profile) -> object:
    """Return a node's MIG layout, by default its profile's layout, or None."""
    return (profile.get("gpu") or {}).get("mig") if node["mig"] is None else node["mig"]


def node_gres(node: Node, profile: Profile) -> list[tuple[str, int]]:
    """Return type and count of each kind of GPU in a node."""
    return gres_counts(profile.get("gpu"), node_mig(node, profile))


def node_gres_mode(node: Node, profile: Profile) -> str:
    """Return the GPU detection mode of slurmd, or '' for a node without GPUs."""
    return gres_mode(node["gres_mode"], profile["gpu"]) if node_gres(node, profile) else ""


def node_attributes(node: Node, catalogue: Catalogue) -> dict[str, Any]:
    """Return the keys of the node's line in slurm.conf, overridden by the site's `params`.

    Raises:
        ValueError: if the hardware is not in the catalogue.
    """
    profile = profile_of(node, catalogue)
    gres = node_gres(node, profile)
    own = {
        "CPUs": cpus_of(profile),
        "Sockets": profile["sockets"],
        "CoresPerSocket": profile["cores_per_socket"],
        "ThreadsPerCore": profile["threads_per_core"],
        "RealMemory": profile["memory_mb"],
        "Gres": ",".join(f"gpu:{kind}:{count}" if kind else f"gpu:{count}" for kind, count in gres) or None,
        "Feature": ",".join(node["features"]) or None,
        "Weight": node["weight"],
    }
    return merge_config(own, node["params"])


def kinds(nodes: Iterable[Node]) -> list[tuple[Node, list[str]]]:
    """Group nodes that differ only in name; return one node of each group, with the names of all.

    Hardware profiles are then evaluated once per group.
    """
    found: dict[str, tuple[Node, list[str]]] = {}
    for node in nodes:
        attributes = repr([value for key, value in node.items() if key != "name"])
        found.setdefault(attributes, (node, []))[1].append(node["name"])
    return list(found.values())


def _grouped(pairs: Iterable[tuple[str, list[str]]]) -> dict[str, str]:
    """Return folded node names by attributes, in order of first appearance."""
    grouped: dict[str, list[str]] = {}
    for attributes, names in pairs:
        grouped.setdefault(attributes, []).extend(names)
    # Fold each list of names only once.
    folded = {names: fold_for_slurm(names) for names in {tuple(names) for names in grouped.values()}}
    return {attributes: folded[tuple(names)] for attributes, names in grouped.items()}


def node_lines(nodes: Sequence[Node], catalogue: Catalogue) -> list[str]:
    """Return one NodeName line per kind of node.

    Raises:
        ValueError: if the hardware of a node is not in the catalogue.
    """
    alike = _grouped((" ".join(config_lines(node_attributes(node, catalogue))), names) for node, names in kinds(nodes))
    return [f"NodeName={names} {attributes} State=UNKNOWN" for attributes, names in alike.items()]


def gres_lines(nodes: Sequence[Node], catalogue: Catalogue) -> list[str]:
    """Return the lines of gres.conf per kind of GPU node.

    Raises:
        ValueError: if the hardware of a node is not in the catalogue.
    """
    pairs = []
    for node, names in kinds(nodes):
        profile = profile_of(node, catalogue)
        mode = node_gres_mode(node, profile)
        lines = gres_conf(profile.get("gpu"), node_mig(node, profile), mode, _declared_cores(node, profile))
        pairs += [(" ".join(config_lines(line)), names) for line in lines]
    return [f"NodeName={names} {attributes}" for attributes, names in _grouped(pairs).items()]


def _declared_cores(node: Node, profile: Profile) -> int:
    """Return the cores per socket in the node's line of slurm.conf.

    Raises:
        ValueError: if the value is not a number.
    """
    attributes = {key.lower(): value for key, value in node_attributes(node, {node["hardware"] or "": profile}).items()}
    return int(attributes.get("corespersocket") or profile["cores_per_socket"])


def gpu_types(nodes: Sequence[Node], catalogue: Catalogue) -> list[str]:
    """Return the Slurm types of all GPUs, sorted; '' stands for GPUs without a type."""
    return sorted({kind for node, _ in kinds(nodes) for kind, _ in node_gres(node, profile_of(node, catalogue))})


def gpu_plugins(nodes: Sequence[Node], catalogue: Catalogue) -> list[str]:
    """Return Slurm's GPU detection plugins for the nodes, such as gpu_nvml; empty if all device files are declared."""
    modes = {node_gres_mode(node, profile_of(node, catalogue)) for node, _ in kinds(nodes)}
    return sorted(f"gpu_{mode}" for mode in modes - {"", "files"})


def default_mem_per_cpu(nodes: Sequence[Node], catalogue: Catalogue) -> int | None:
    """Return the memory in MiB per CPU that lets a job use all CPUs of any node; None without nodes."""
    shares = []
    for node, _ in kinds(nodes):
        keys = {key.lower(): value for key, value in node_attributes(node, catalogue).items()}
        shares.append(int(keys["realmemory"]) // int(keys["cpus"]))
    return min(shares, default=None)


def partition_hosts(
    partition: Mapping[str, Any], groups: Mapping[str, Sequence[str]], compute: Sequence[str]
) -> list[str] | None:
    """Return the compute nodes that a partition selects by `nodes` and `groups`, or None for all.

    Raises:
        ValueError: if a group is not in the inventory, or `nodes` is not a host list.
    """
    if not partition.get("nodes") and not partition.get("groups"):
        return None
    given = partition.get("nodes") or []
    hosts = set(unfold_hosts(given))
    for group in partition.get("groups") or []:
        if group not in groups:
            message = f"slurm_partitions[{partition.get('name')}]: group {group!r} is not in the inventory"
            raise ValueError(message)
        hosts.update(groups[group])
    return [name for name in compute if name in hosts]


def partition_lines(
    partitions: Sequence[Mapping[str, Any]], groups: Mapping[str, Sequence[str]], compute: Sequence[str]
) -> list[str]:
    """Return one PartitionName line per partition.

    Raises:
        ValueError: if a partition names an unknown group or an invalid host list.
    """
    lines = []
    for partition in partitions:
        hosts = partition_hosts(partition, groups, compute)
        own = {
            "Nodes": "ALL" if hosts is None else fold_for_slurm(hosts),
            "Default": True if partition.get("default") else None,
            "MaxTime": "INFINITE",
            "State": "UP",
        }
        attributes = merge_config(own, partition.get("params") or {})
        lines.append(f"PartitionName={partition['name']} {' '.join(config_lines(attributes))}")
    return lines


def topology_lines(topology: Mapping[str, Any]) -> list[str]:
    """Return the lines of topology.conf.

    Args:
        topology: ``switches`` (``name``, ``nodes`` or ``switches``), or ``blocks`` (``name``, ``nodes``) and
            ``block_sizes``.

    Raises:
        ValueError: if a switch has neither nodes nor switches.
    """
    lines = []
    for switch in topology.get("switches") or []:
        below = {"Nodes": switch.get("nodes"), "Switches": switch.get("switches")}
        attributes = {key: value for key, value in below.items() if value}
        if not attributes:
            message = f"slurm_topology.switches[{switch.get('name')}]: has neither nodes nor switches"
            raise ValueError(message)
        attributes = merge_config(attributes, switch.get("params") or {})
        lines.append(f"SwitchName={switch['name']} {' '.join(config_lines(attributes))}")
    for block in topology.get("blocks") or []:
        attributes = merge_config({"Nodes": block["nodes"]}, block.get("params") or {})
        lines.append(f"BlockName={block['name']} {' '.join(config_lines(attributes))}")
    if topology.get("block_sizes"):
        lines += config_lines({"BlockSizes": topology["block_sizes"]})
    return lines
