# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""Compute the ceilings of a collective's busbw from NVLink and NIC rates.

All rates are in GB/s (10^9 bytes per second) in one direction. Symbols: g GPUs per node, k nodes, n = g k ranks, S the
message size, t the time, B the NVLink rate of one GPU, W the sum of the NIC rates of one node. "Node" means an NVLink
domain here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

# Maps the line rate to the rate that NCCL's tuning assumes: links x SMxx_NVLINK_BW of NCCL's src/graph/topo.h, commit
# 5067397c2676d5aed50042fc39e5c8ee96eb0027: V100 6 x 20, A100 12 x 20, H800 8 x 20.6, H100 18 x 20.6, B200 18 x 40.1.
_EFFECTIVE = {150.0: 120.0, 200.0: 164.8, 300.0: 240.0, 450.0: 370.8, 900.0: 721.8}
# Protocol overhead is about a fifth of the NVLink line rate (NVIDIA/nccl-tests issues 149 and 212).
_EFFECTIVE_SHARE = 0.8
_HOPPER_LINE = 450.0
_BLACKWELL_LINE = 900.0
# nvlsEfficiency in NCCL's src/graph/tuning.cc, same commit.
_NVLS_EFFICIENCY = {"hopper": 0.85, "blackwell": 0.74}
_BITS = 8


def nic_rate(nics: list[dict[str, Any]]) -> float:
    """Return W, the sum of the rates of a node's NICs: Gb/s divided by 8."""
    return sum(float(nic["count"]) * float(nic["gbps"]) for nic in nics) / _BITS


def effective_nvlink(line: float) -> float:
    """Return the rate that NCCL reaches with NVLinks of this line rate.

    Source: NCCL src/graph/topo.h (links times SMxx_NVLINK_BW); for other rates, 80 % of the line rate,
    NVIDIA/nccl-tests#212.
    """
    return _EFFECTIVE.get(float(line), _EFFECTIVE_SHARE * float(line))


def ring(inside: float, outside: float | None) -> float:
    """Return the ceiling of a flat ring: busbw <= min(B, W).

    The ring enters and leaves each node once per channel, so 2(n-1)/n x S leaves each node at W. Source: nccl-tests
    doc/PERFORMANCE.md, commit a0b82b2260cf5152b9f8c061bbf7eaf0ba096432.
    """
    return inside if outside is None else min(inside, outside)


def nvls(line: float, ranks: int) -> float | None:
    """Return the ceiling of an all-reduce by the NVSwitch (NVLink SHARP), or None if the GPU does not support it.

    busbw <= B x 2(n-1)/(n+1) times NCCL's nvlsEfficiency (0.85 Hopper, 0.74 Blackwell): each GPU transfers S (n+1)/n in
    each direction instead of 2 S (n-1)/n. Source: NVIDIA/nccl-tests#366, NCCL src/graph/tuning.cc; within 4 % of
    published single-node values.
    """
    if line < _HOPPER_LINE or ranks < 2:  # noqa: PLR2004 - one rank sends nothing
        return None
    efficiency = _NVLS_EFFICIENCY["blackwell" if line >= _BLACKWELL_LINE else "hopper"]
    return efficiency * effective_nvlink(line) * 2 * (ranks - 1) / (ranks + 1)


def hierarchical(outside: float, nodes: int, gpus: int) -> float:
    """Return the inter-node ceiling of any algorithm that first reduces inside the node: W (n-1) k / (n (k-1)).

    Each node sends at least 2(k-1)/k x S. Two nodes reach almost 2 W, many nodes W, so a value of two nodes does not
    apply to more. Source: derived; the conversion is in stas00/ml-engineering network/README.md, commit
    744d01e18b79512572f64a6bbd8b5f4a725203a7; for trees see NVIDIA/nccl#1576 and NVIDIA/nccl-tests#196.
    """
    ranks = nodes * gpus
    return outside * (ranks - 1) * nodes / (ranks * (nodes - 1))


def in_network(outside: float, ranks: int) -> float:
    """Return the ceiling of a reduction by network switches (SHARP): W x 2(n-1)/n.

    Each node sends S once and receives S once. Source: NVIDIA/nccl#320 (A100, 8 x 200 Gb/s: about 220).
    """
    return outside * 2 * (ranks - 1) / ranks


def alltoall(outside: float, nodes: int, gpus: int) -> float:
    """Return the ceiling of an all-to-all between nodes: W/g x (n-1)/(n-g).

    Each rank sends S (n-g)/n to other nodes, and busbw is (n-1)/n x S/t. Two nodes reach almost 2 W/g, many nodes W/g.
    Source: derived. For 10 nodes of 8 H100 with 8 x 400 Gb/s the result is 54.9, and the published value 50.38
    (xxrjun/nccl-tests-cluster, commit 455de4f).
    """
    ranks = nodes * gpus
    return outside / gpus * (ranks - 1) / (ranks - gpus)


def ceilings(
    profile: dict[str, Any],
    nodes: int,
    gpus: int | None = None,
    collective: str = "all_reduce",
    sizes: Sequence[int] | None = None,
) -> dict[str, Any]:
    """Return the ceilings of a collective on nodes with the same profile.

    Args:
        profile: an entry of the hardware catalogue.
        nodes: number of nodes.
        gpus: GPUs used on each node; all of them by default.
        collective: the program, without "_perf".
        sizes: number of nodes in each NVLink domain; the smallest domain is the bottleneck; by default the fewest
            possible domains, which gives the highest ceilings.

    Returns:
        ``wire`` (ceiling of a flat ring, GB/s), ``limit`` (ceiling of any algorithm), ``algorithm`` (its name),
        ``inside`` (ceiling inside a node or NVLink domain). A ceiling is None if the profile lacks the rate.
    """
    gpu = profile.get("gpu") or {}
    gpus = gpus or int(gpu.get("count") or 1)
    domain = int(profile.get("nvlink_domain_nodes") or 1)
    line = float(gpu.get("nvlink_gbs") or 0)
    blocks = len(sizes) if sizes and domain > 1 else -(-nodes // domain)
    members = min(sizes) if sizes and domain > 1 else min(nodes, domain)
    inner_ranks = gpus * members
    inside = _inside(profile, line, inner_ranks)
    summed = nvls(line, inner_ranks) if collective == "all_reduce" else None
    if blocks == 1:
        limit = max(inside, summed or 0.0) if inside is not None else None
        return _answer(inside, limit, "NVLS" if summed and limit == summed else "ring", inside)
    outside = nic_rate(profile.get("nics") or []) * members
    if inner_ranks == 1:
        inside = None
    wire = ring(outside if inside is None else inside, outside)
    if collective == "alltoall":
        wire = alltoall(outside, blocks, inner_ranks)
        wire = wire if inside is None else min(inside, wire)
    if collective != "all_reduce":
        return _answer(wire, wire, "ring", inside)
    across = hierarchical(outside, blocks, inner_ranks)
    shared = in_network(outside, blocks * inner_ranks) if any(nic.get("rdma") for nic in profile["nics"]) else 0.0
    best = max(inside, summed or 0.0) if inside is not None else None
    limit = max(across, shared) if best is None else min(best * 1.05, max(across, shared))
    return _answer(wire, limit, "SHARP" if shared > across else "tree", inside)


def _inside(profile: dict[str, Any], line: float, ranks: int) -> float | None:
    """Return the ceiling of a ring inside a node; without NVLink, the limit in the profile."""
    if ranks < 2:  # noqa: PLR2004 - one rank sends nothing
        return None
    if line > 0:
        # Every rank sends 2(n-1)/n x S over its own NVLinks: busbw <= effective B (nccl-tests doc/PERFORMANCE.md).
        return effective_nvlink(line)
    busbw = profile.get("busbw") or {}
    limit = (busbw.get("intra_node") or {}).get("limit_gbs")
    return None if limit is None else float(limit)


def _answer(wire: float | None, limit: float | None, algorithm: str, inside: float | None) -> dict[str, Any]:
    return {"wire": wire, "limit": limit, "algorithm": algorithm, "inside": inside}
