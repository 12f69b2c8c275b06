# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""The floors of a training run: from the options, else from the weakest hardware, else derived from the network.

If no efficiency is declared, that of a real model is derived from the busbw floors of the collectives: a step without
any overlap takes the time of one rank plus that of an all-reduce of all gradients, 2(n-1)/n of their bytes at the busbw
floor (nccl-tests doc/PERFORMANCE.md). DDP overlaps most of the all-reduce with the backward pass (Li et al., PyTorch
Distributed, VLDB 2020, section 3.2.3), so only a training run that is slower than its network can miss the floor. A
tenth is subtracted for ranks that share power, memory and cores.

The loss must decrease and reach that of a reference. Seed and samples are fixed (train_ddp.py), so one rank reaches the
reference loss after the same number of steps with the same batches, except for rounding. The reference applies only to
one rank, because several ranks process more samples per step.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...common.option_names_in_messages import option
from .stage_verdict import Floors as Chosen

_SHARED = 0.9
_GB = 1e9
_COMPUTED = "computed: 0.9 of the efficiency if gradients are transferred at the hardware's busbw floor without overlap"
# Models with a realistic ratio of computation to communication; the toy model computes almost nothing.
_REAL = ("gpt", "resnet50")
_BETWEEN = ("inter_node", "inter_domain")
# With fewer steps, the loss may still be above its initial value.
_ENOUGH_STEPS = 50


@dataclass(frozen=True)
class Floors:
    """The floors of a training run; None if unknown.

    Attributes:
        efficiency: minimum samples/s of all ranks as a fraction of those of one rank times the number of ranks.
        rate: minimum samples/s of one rank.
        tflops: minimum speed of one rank in 10^12 operations per second.
        peak: peak speed of a GPU's tensor cores in bf16, in 10^12 operations per second.
        inside: busbw floor of all_reduce on one node, GB/s.
        between: busbw floor of all_reduce on several nodes, GB/s.
        source: sources of the floors.
    """

    efficiency: float | None = None
    rate: float | None = None
    tflops: float | None = None
    peak: float | None = None
    inside: float | None = None
    between: float | None = None
    source: str = ""


def known_floors(own: dict[str, Any], profiles: list[dict[str, Any]], backend: str) -> Floors:
    """Return the floors; a floor that is unknown for any node is None.

    Args:
        own: options of the stage: efficiency, rate, tflops (0 if not set) and model.
        profiles: hardware profile of each node; empty if unknown.
        backend: nccl or mpi; with mpi, sandbox nodes share CPUs, so no floor of the hardware applies.
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
    """Return the minimum efficiency of a run relative to single ranks; None if unknown.

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
    """Return why the loss of a run is wrong; empty if it is correct.

    Args:
        result: an entry of read_training, with any number of ranks.
        reference: the reference loss of one rank.
    """
    first, final = result["first_loss"], result["final_loss"]
    if first is None or final is None:
        return "the loss is not a number"
    if final >= first and (result["steps"] or 0) >= _ENOUGH_STEPS:
        return f"the model did not learn: the loss went from {first:.4g} to {final:.4g}"
    most = reference.most
    if most is not None and result["world_size"] == 1 and not gap_of_loss(result, reference) and final > most:
        return f"the loss is {final:.4g} after {reference.steps} steps (at most {most:.4g}, from the reference)"
    return ""


def gap_of_loss(result: dict[str, Any], reference: Reference) -> str:
    """Return why the loss of a run cannot be compared with the reference; empty if it can."""
    took = int(result["steps"] or 0)
    if reference.loss is None or result["world_size"] != 1 or took == reference.steps:
        return ""
    return (
        f"{took} of {reference.steps} steps were completed, so the loss is not comparable: raise "
        f"{option('training_seconds')}"
    )
