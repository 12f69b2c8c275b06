# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""What a training must reach: the operator's figures, else those of the weakest hardware, else what follows from it.

Without a declared share of as many ranks alone, that of a real model follows from the floors of the collectives, which
the other stages hold the same network to: a step that hides nothing of its communication takes the time of one rank
plus that of an all-reduce of all gradients, 2(n-1)/n of their bytes at the floor of busbw (nccl-tests
doc/PERFORMANCE.md). DDP hides most of that behind the backward pass (Li et al., PyTorch Distributed, VLDB 2020, section
3.2.3), so only what is slower than its network can miss it. A tenth is left for ranks that share power, memory and
cores.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

__all__ = ["Floors", "efficiency_floor", "known_floors"]

_SHARED = 0.9
_GB = 1e9
_COMPUTED = "computed: gradients at the hardware's floor of busbw, nothing hidden, nine tenths of that"
# The toy has nothing to compute, so it says nothing about a network's share in a real step.
_REAL = ("gpt", "resnet50")
_BETWEEN = ("inter_node", "inter_domain")


@dataclass(frozen=True)
class Floors:
    """What a training is held against; None where it is not known.

    Attributes:
        efficiency: samples/s of all ranks over ranks times those of one, at least.
        rate: samples/s of one rank, at least.
        tflops: 10^12 operations per second of one rank, at least.
        peak: what a GPU's tensor cores do at the most in bf16, 10^12 operations per second.
        inside: busbw that the all-reduce of one node must reach, GB/s.
        between: the same of several nodes.
        source: where the floors come from.
    """

    efficiency: float | None = None
    rate: float | None = None
    tflops: float | None = None
    peak: float | None = None
    inside: float | None = None
    between: float | None = None
    source: str = ""


def known_floors(own: dict[str, Any], profiles: list[dict[str, Any]], backend: str) -> Floors:
    """Return the floors: one node of unknown hardware makes one unknown, for no other's can be asked of it.

    Args:
        own: the options of the stage: efficiency, rate, tflops (0 where not given) and model.
        profiles: the hardware profile of each node, an empty one where it is unknown.
        backend: nccl or mpi; CPUs that nodes of a sandbox share follow no law.
    """
    declared = [profile.get("training") or {} for profile in profiles]
    sources: dict[str, None] = {}

    def floor(given: float, values: list[float | None]) -> float | None:
        known = [value for value in values if value]
        found = given or (min(known) if known and len(known) == len(profiles) else None)
        if found:
            sources.update({"the operator": None} if given else {str(item.get("source")): None for item in declared})
        return found

    efficiency = floor(own["efficiency"], [item.get("efficiency_floor") for item in declared])
    rate = floor(own["rate"], [item.get("samples_per_second_floor") for item in declared])
    shares = [item.get(f"{own['model']}_share_floor") for item in declared]
    peaks = [item.get("peak_tflops") for item in declared]
    works = [share * peak if share and peak else None for share, peak in zip(shares, peaks, strict=True)]
    tflops = floor(own["tflops"], works)
    speeds: list[float | None] = [None, None]
    if not efficiency and backend == "nccl" and own["model"] in _REAL:
        speeds = [_slowest(profiles, ("intra_node",)), _slowest(profiles, _BETWEEN)]
        if any(speeds):
            sources[_COMPUTED] = None
    known = [peak for peak in peaks if peak]
    peak = min(known) if known and len(known) == len(profiles) else None
    inside, between = speeds
    return Floors(efficiency, rate, tflops, peak, inside, between, "; ".join(sources))


def _slowest(profiles: list[dict[str, Any]], scopes: tuple[str, ...]) -> float | None:
    """Return the least floor of busbw that the nodes have in one of some scopes; None where one of them has none."""
    found = []
    for profile in profiles:
        floors = [entry["floor_gbs"] for scope in scopes if (entry := (profile.get("busbw") or {}).get(scope))]
        if not floors:
            return None
        found.append(float(min(floors)))
    return min(found, default=None)


def efficiency_floor(floors: Floors, nodes: int, result: dict[str, Any], base: dict[str, Any] | None) -> float | None:
    """Return the share of as many ranks alone that a run must reach, None where that is not known.

    Args:
        floors: what is known.
        nodes: of the run.
        result: of the run: world_size and gradient_bytes.
        base: the result of one rank: step_seconds.
    """
    ranks = result["world_size"]
    if floors.efficiency or ranks == 1:
        return floors.efficiency
    speed = floors.inside if nodes == 1 else floors.between
    if not speed or not base or not base["step_seconds"] or not result["gradient_bytes"]:
        return None
    seconds = 2 * (ranks - 1) / ranks * result["gradient_bytes"] / (speed * _GB)
    return float(_SHARED * base["step_seconds"] / (base["step_seconds"] + seconds))
