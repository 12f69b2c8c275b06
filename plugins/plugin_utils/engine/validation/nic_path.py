# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""What an all-reduce can reach over the NICs alone: a ring each of whose hops crosses the network.

NCCL goes over the network where neither peer-to-peer access nor shared memory may be used (NCCL documentation,
NCCL_SHM_DISABLE: "NCCL will use network (i.e. InfiniBand or IP sockets) to communicate between the CPU sockets when SHM
is disabled"). Each of the g ranks of a node then sends its part of the ring over the node's NICs, so busbw <= W/g. Two
nodes of 8 GPUs with a 400 Gb/s NIC each show 42.45 of those 50 GB/s (jianxiongzhang/nccl_test,
6kd_p2p_disable_plugin_allreduce_raw_data.txt, commit 3ae8409).
"""

from __future__ import annotations

from typing import Any

from ..catalogue.ceilings import nic_rate

__all__ = ["of_nic_path"]

# As much less than the one published figure as the floors of other ways are below theirs.
_SHARE = 0.75
_SOURCE = (
    "computed: {share:g} of the {most:.4g} GB/s that the NICs have for each GPU; 0.85 is published of two nodes "
    "(jianxiongzhang/nccl_test, commit 3ae8409)"
)


def of_nic_path(profile: dict[str, Any], ranks: int) -> dict[str, Any]:
    """Return a profile of the NICs alone: its NICs have the share of one rank, and its floors follow from that.

    Without RDMA it has no floor: how much of the rate sockets reach depends on the CPUs.

    Args:
        profile: an entry of the hardware catalogue.
        ranks: of each node.
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
    # Neither NVLink nor its switches have a part in it, nor do they make a domain of several nodes.
    gpu = {**(profile.get("gpu") or {}), "nvlink_gbs": 0, "nvswitch": False}
    return {**profile, "nics": nics, "busbw": busbw, "gpu": gpu, "nvlink_domain_nodes": 1}
