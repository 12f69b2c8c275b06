# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""Generate Slurm's block topology from NVLink domains, with the ClusterUUID and CliqueId of GPUs."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from ..engine.common.hostlist import fold_for_slurm, fold_hosts
from ..hardware.nvlink_domains import fabric_of

if TYPE_CHECKING:
    from collections.abc import Mapping


def nvlink_topology(facts: Mapping[str, Mapping[str, Any]], domains: Mapping[str, str]) -> dict[str, Any]:
    """Return `slurm_topology` with one block per NVLink domain.

    Args:
        facts: the `devices` of `node_info` by node.
        domains: `nvlink_domain` of the nodes that declare one.

    Returns:
        `blocks`, in the format of the slurm role's option `slurm_topology`, and `notes` for the user.

    Raises:
        ValueError: if the GPUs of a node belong to no domain or to several.
    """
    blocks: dict[tuple[str, int], list[str]] = defaultdict(list)
    alone: list[str] = []
    torn: list[str] = []
    for node in sorted(facts):
        found = fabric_of(facts[node])
        if len(found) == 1:
            blocks[next(iter(found))].append(node)
        else:
            (torn if found else alone).append(node)
    if torn:
        message = f"the GPUs of {fold_hosts(torn)} belong to several NVLink domains: correct the partitions of the rack"
        raise ValueError(message)
    if alone:
        message = (
            f"the GPUs of {fold_hosts(alone)} report no ClusterUUID (`nvidia-smi -q`, Fabric): exclude nodes whose "
            "NVLink does not leave the node; in a rack, check the fabric manager of its NVLink switches"
        )
        raise ValueError(message)
    entries, notes = [], []
    for number, ((uuid, clique), nodes) in enumerate(sorted(blocks.items(), key=lambda item: item[1][0]), 1):
        declared = {domains.get(node, "") for node in nodes}
        name = next(iter(declared)) if len(declared) == 1 and "" not in declared else f"block{number}"
        entries.append({"name": name, "nodes": fold_for_slurm(nodes)})
        notes.append(f"{name}: ClusterUUID {uuid}, CliqueId {clique}")
    if len({entry["name"] for entry in entries}) < len(entries):
        message = "several NVLink domains share one nvlink_domain in the inventory: run the preflight to list them"
        raise ValueError(message)
    return {"blocks": entries, "notes": notes}
