# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""The floors of a training run: the operator's, else those of the weakest hardware, else derived from the network.

Without a declared efficiency, the floor for a real model is derived from the floors of the collectives, which the other
stages require from the same network: a step without any overlap of communication takes the time of one rank plus that
of an all-reduce of all gradients, 2(n-1)/n of their bytes at the floor of busbw (nccl-tests doc/PERFORMANCE.md). DDP
overlaps most of that with the backward pass (Li et al., PyTorch Distributed, VLDB 2020, section 3.2.3), so only a
training that is slower than its network can miss the floor. A tenth is reserved for ranks that share power, memory and
cores.

The loss must decrease and reach that of a reference. Seed and samples are always the same (train_ddp.py), so one rank
reaches the reference loss, except for rounding, after the same number of steps with the same batches. Many ranks see
more samples in each step, so the reference applies to one rank.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...common.option_names import option
from .stage_verdict import Floors as Chosen

__all__ = ["Floors", "Reference", "efficiency_floor", "gap_of_loss", "known_floors", "wrong_loss"]

_SHARED = 0.9
_GB = 1e9
_COMPUTED = "computed: 0.9 of the efficiency with gradients at the hardware's busbw floor and no overlap"
# The toy model computes almost nothing, so it does not represent the network's share of a real step.
_REAL = ("gpt", "resnet50")
_BETWEEN = ("inter_node", "inter_domain")
# With fewer steps, the loss may still be above its initial value.
_ENOUGH_STEPS = 50


@dataclass(frozen=True)
class Floors:
    """The floors of a training run; None if unknown.

    Attributes:
        efficiency: minimum of the samples/s of all ranks, divided by those of one rank times the number of ranks.
        rate: minimum samples/s of one rank.
        tflops: minimum speed of one rank in 10^12 operations per second.
        peak: peak speed of a GPU's tensor cores in bf16, in 10^12 operations per second.
        inside: busbw that the all-reduce of one node must reach, GB/s.
        between: the same between several nodes.
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
    """Return the floors; a floor that is unknown for any node is None, since another node's does not apply to it.

    Args:
        own: the options of the stage: efficiency, rate, tflops (0 if not set) and model.
        profiles: the hardware profile of each node, empty if unknown.
        backend: nccl or mpi; the speed of CPUs that sandbox nodes share is unpredictable.
    """
    declared = [profile.get("training") or {} for profile in profiles]
    chosen, sources = Chosen(), [item.get("source") for item in declared]
    peaks = [item.get("peak_tflops") or 0 for item in declared]
    shares = [item.get(f"{own['model']}_share_floor") or 0 for item in declared]
    works = [share * peak for share, peak in zip(shares, peaks)]
    efficiency = chosen.pick(own["efficiency"], _weakest([item.get("efficiency_floor") for item in declared]), *sources)
    rate = chosen.pick(own["rate"], _weakest([item.get("samples_per_second_floor") for item in declared]), *sources)
    tflops = chosen.pick(own["tflops"], _weakest(works), *sources)
    inside = between = None
    if not efficiency and backend == "nccl" and own["model"] in _REAL:
        inside, between = _slowest(profiles, ("intra_node",)), _slowest(profiles, _BETWEEN)
        chosen.sources += [_COMPUTED] if inside or between else []
    return Floors(efficiency, rate, tflops, _weakest(peaks), inside, between, str(chosen))


def _weakest(values: list[Any]) -> float | None:
    """Return the minimum, or None if any value is unknown."""
    return min(values) if values and all(values) else None


def _slowest(profiles: list[dict[str, Any]], scopes: tuple[str, ...]) -> float | None:
    """Return the nodes' lowest busbw floor in one of the scopes, or None if a node has none."""
    speeds = [profile.get("busbw") or {} for profile in profiles]
    floors = [[float(busbw[scope]["floor_gbs"]) for scope in scopes if busbw.get(scope)] for busbw in speeds]
    return min(map(min, floors)) if floors and all(floors) else None


def efficiency_floor(floors: Floors, nodes: int, result: dict[str, Any], base: dict[str, Any] | None) -> float | None:
    """Return the efficiency that a run must reach relative to single ranks, None if unknown.

    Args:
        floors: the known floors.
        nodes: number of nodes.
        result: result of the run: world_size and gradient_bytes.
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


@dataclass(frozen=True)
class Reference:
    """The reference loss of one rank.

    Attributes:
        loss: loss at the end, None without a reference.
        tolerance: share by which the loss may exceed it.
        steps: number of steps of the reference.
    """

    loss: float | None = None
    tolerance: float = 0.0
    steps: int = 0

    @property
    def most(self) -> float | None:
        """The highest accepted loss."""
        return None if self.loss is None else self.loss * (1 + self.tolerance)


def wrong_loss(result: dict[str, Any], reference: Reference) -> str:
    """Return why the loss of a run is wrong; empty if it is right.

    Args:
        result: an entry of read_training, with any number of ranks.
        reference: the reference of one rank.
    """
    first, final = result["first_loss"], result["final_loss"]
    if first is None or final is None:
        return "the loss is not a number"
    if final >= first and (result["steps"] or 0) >= _ENOUGH_STEPS:
        return f"the model did not learn: the loss went from {first:.4g} to {final:.4g}"
    most = reference.most
    if most is not None and result["world_size"] == 1 and not gap_of_loss(result, reference) and final > most:
        return f"the loss is {final:.4g} after {reference.steps} steps, {most:.4g} at most by the reference"
    return ""


def gap_of_loss(result: dict[str, Any], reference: Reference) -> str:
    """Return why the loss of a run cannot be compared with the reference; empty if it can."""
    took = int(result["steps"] or 0)
    if reference.loss is None or result["world_size"] != 1 or took == reference.steps:
        return ""
    return (
        f"{took} of {reference.steps} steps were completed, so the loss is not comparable: train longer "
        f"({option('training_seconds')})"
    )
