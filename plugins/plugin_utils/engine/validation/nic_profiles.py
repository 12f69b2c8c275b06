# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""Derive profiles for a part of the network: one NIC per node (a rail), or the NICs only.

An all-reduce over the NICs only is a ring whose hops all cross the network. NCCL uses the network if neither
peer-to-peer access nor shared memory is allowed (NCCL documentation, NCCL_SHM_DISABLE: "NCCL will use network (i.e.
InfiniBand or IP sockets) to communicate between the CPU sockets when SHM is disabled"). Each of a node's g ranks then
sends its part of the ring over the node's NICs, so busbw <= W/g. Two nodes of 8 GPUs with a 400 Gb/s NIC each reach
42.45 of those 50 GB/s (jianxiongzhang/nccl_test, 6kd_p2p_disable_plugin_allreduce_raw_data.txt, commit 3ae8409).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from ..catalogue.ceilings import nic_rate
from ..common.option_names import option

if TYPE_CHECKING:
    from .model import Options

__all__ = ["of_nic_path", "of_one_rail", "rail_problems", "rail_share"]

_RAIL = re.compile(r"[\w.-]+")
# The margin below the single published value, the same as for the other floors.
_SHARE = 0.75
_SOURCE = (
    "computed: {share:g} of the {most:.4g} GB/s NIC bandwidth for each GPU; 0.85 is published for two nodes "
    "(jianxiongzhang/nccl_test, commit 3ae8409)"
)


def rail_problems(options: Options) -> list[str]:
    """Return the problems with the rail names, with the remedy.

    Args:
        options: rails (a list of NIC names), stages.
    """
    rails = options["rails"]
    if not all(_RAIL.fullmatch(rail) for rail in rails):
        return [f"{option('rails')}: must be a list of names of NICs, such as [mlx5_0, mlx5_1]"]
    if len(set(rails)) < len(rails):
        return [f"{option('rails')}: names a rail twice"]
    if rails and "cluster" not in options["stages"]:
        return [f"{option('rails')}: requires the stage cluster: add it to {option('stages')}"]
    return []


def rail_share(options: Options, profile: dict[str, Any] | None) -> float:
    """Return one rail's share of a node's NICs: those in the profile, or the configured rails if these are more."""
    nics = sum(int(nic["count"]) for nic in (profile or {}).get("nics") or [])
    return 1 / max(nics, len(options["rails"]))


def of_one_rail(profile: dict[str, Any], share: float) -> dict[str, Any]:
    """Return a profile with one NIC per node and the given share of each rate, limit and floor between nodes.

    It keeps only the floors for any number of nodes: the bandwidth of few nodes with all NICs is limited inside the
    node, so their floors do not apply to one NIC.
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
    """Return a profile for the NICs only: its NICs have the share of one rank, and its floors are derived from it.

    Without RDMA it has no floor, because the CPUs limit the rate of sockets.

    Args:
        profile: an entry of the hardware catalogue.
        ranks: ranks of each node.
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
    # Neither NVLink nor its switches are used, and no NVLink domain spans nodes.
    gpu = {**(profile.get("gpu") or {}), "nvlink_gbs": 0, "nvswitch": False}
    return {**profile, "nics": nics, "busbw": busbw, "gpu": gpu, "nvlink_domain_nodes": 1}
