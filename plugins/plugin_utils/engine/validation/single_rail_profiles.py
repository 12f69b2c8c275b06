# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""Derive hardware profiles for tests over one rail (one NIC per node), and for tests over NICs only.

NCCL communicates only over NICs if peer-to-peer access and shared memory are disabled (NCCL documentation,
NCCL_SHM_DISABLE: "NCCL will use network (i.e. InfiniBand or IP sockets) to communicate between the CPU sockets when SHM
is disabled"). Each of a node's g ranks then sends its part of the ring over the node's NICs with the total rate W, so
busbw <= W/g. Two nodes of 8 GPUs with one 400 Gb/s NIC per GPU reach 42.45 of 50 GB/s (jianxiongzhang/nccl_test,
6kd_p2p_disable_plugin_allreduce_raw_data.txt, commit 3ae8409).
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Any

from ..catalogue.ceilings import nic_rate
from ..common.option_names_in_messages import option

if TYPE_CHECKING:
    from .validation_types import Options

_RAIL = re.compile(r"[\w.-]+")
# Share of the NIC rate, below the only published value of 0.85.
_SHARE = 0.75
_SOURCE = (
    "computed: {share:g} of the {most:.4g} GB/s NIC bandwidth for each GPU; 0.85 is published for two nodes "
    "(jianxiongzhang/nccl_test, commit 3ae8409)"
)


def rail_problems(options: Options) -> list[str]:
    """Return the problems with the rail names, with the remedy."""
    rails = options["rails"]
    if not all(_RAIL.fullmatch(rail) for rail in rails):
        return [f"{option('rails')}: must be a list of names of NICs, such as [mlx5_0, mlx5_1]"]
    if twice := sorted(rail for rail, count in Counter(rails).items() if count > 1):
        return [f"{option('rails')}: lists {', '.join(twice)} more than once: remove the duplicates"]
    if rails and "cluster" not in options["stages"]:
        return [f"{option('rails')}: requires the stage cluster: add it to {option('stages')}"]
    return []


def rail_share(options: Options, profile: dict[str, Any] | None) -> float:
    """Return one rail's share of a node's NICs: 1 / the number of NICs or, if larger, of configured rails."""
    nics = sum(int(nic["count"]) for nic in (profile or {}).get("nics") or [])
    return 1 / max(nics, len(options["rails"]))


def of_one_rail(profile: dict[str, Any], share: float) -> dict[str, Any]:
    """Return a profile with one NIC per node and the given share of each rate, limit and floor between nodes.

    Floors for specific numbers of nodes are removed: with all NICs, the node itself limits the bandwidth of few nodes,
    which is not the case for one NIC.
    """
    rate = sum(float(nic["count"]) * float(nic["gbps"]) for nic in profile["nics"]) * share
    nic = {"count": 1, "gbps": rate, "rdma": any(nic["rdma"] for nic in profile["nics"])}
    return {**profile, "nics": [nic], "busbw": {key: _part(scope, share) for key, scope in profile["busbw"].items()}}


def _part(scope: dict[str, Any], share: float) -> dict[str, Any]:
    kept = {key: value for key, value in scope.items() if key not in {"floors", "in_network"}}
    part = {key: value * share if key.endswith("_gbs") else value for key, value in kept.items()}
    if "collectives" in scope:
        part["collectives"] = {name: _part(entry, share) for name, entry in scope["collectives"].items()}
    if scope.get("source"):
        part["source"] = f"{share:.3g} of all rails together; {scope['source']}"
    return part


def of_nic_path(profile: dict[str, Any], ranks: int) -> dict[str, Any]:
    """Return a profile for tests over NICs only: one rank's share of the NIC rate, and floors derived from it.

    Without RDMA it has no floor, because the CPU limits the rate of sockets.

    Args:
        profile: an entry of the hardware catalogue.
        ranks: number of ranks on each node.
    """
    nics = [{**nic, "gbps": float(nic["gbps"]) / ranks} for nic in profile["nics"]]
    most = nic_rate(nics)
    entry = {
        "floor_gbs": round(_SHARE * most, 4),
        "limit_gbs": most,
        "source": _SOURCE.format(share=_SHARE, most=most),
    }
    known = all(nic.get("rdma") for nic in profile["nics"])
    busbw = {"intra_node": entry, "inter_node": entry} if known else {}
    # The test does not use NVLink.
    gpu = {**(profile.get("gpu") or {}), "nvlink_gbs": 0, "nvswitch": False}
    return {**profile, "nics": nics, "busbw": busbw, "gpu": gpu, "nvlink_domain_nodes": 1}
