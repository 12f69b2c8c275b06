"""Compare the MIG instances of a node with its layout, and plan the nvidia-smi calls."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

from ..hardware.nvidia_smi import parse_query
from .mig_layouts import gpu_layouts, mig_geometry, place

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["GpuState", "MigPlan", "boot_layout", "mig_plan", "mig_states"]

_ROW = re.compile(r"^\|\s*(\d+)\s+MIG\s+(\S+)\s+\d+\s+(\d+)\s+(\d+):(\d+)\s*\|")


class GpuState(NamedTuple):
    """Current MIG state of a GPU: enabled (None: unsupported), enabled after the next reset, and its instances."""

    gpu: int
    model: str
    memory_mb: float
    on: bool | None
    pending: bool | None
    instances: tuple[tuple[str, int], ...]
    complete: bool


class MigPlan(NamedTuple):
    """Problems, nvidia-smi calls in order, and each changed GPU before and after."""

    problems: list[str]
    steps: list[list[str]]
    before: str
    after: str


def mig_states(query: str, listing: str) -> list[GpuState]:
    """Return the MIG state of each GPU.

    Args:
        query: output of `nvidia-smi -q -x`, with modes and compute instances.
        listing: output of `nvidia-smi mig -lgi`, with profile and placement of each GPU instance.
    """
    rows = [match.groups() for line in listing.splitlines() if (match := _ROW.match(line.strip()))]
    states = []
    for gpu in parse_query(query)["gpus"]:
        ours = [
            (name, int(identity), int(start)) for index, name, identity, start, _ in rows if int(index) == gpu["index"]
        ]
        usable = {device["gpu_instance"] for device in gpu["mig"]}
        states.append(
            GpuState(
                gpu["index"],
                gpu["product_name"] or "",
                gpu["memory_total_mib"] or 0,
                _on(gpu["mig_mode"]),
                _on(gpu["mig_mode_pending"]),
                tuple(sorted(((name, start) for name, _, start in ours), key=lambda each: each[1])),
                complete=all(identity in usable for _, identity, _ in ours),
            )
        )
    return states


def _on(mode: str | None) -> bool | None:
    return {"enabled": True, "disabled": False}.get((mode or "").lower())


def mig_plan(layout: object, states: Sequence[GpuState]) -> MigPlan:
    """Return the changes from the current state to the layout; GPUs that match it are left alone.

    Instances with the right profiles at other placements match, because the driver may have placed them.
    """
    problems: list[str] = []
    steps: list[list[str]] = []
    before, after = [], []
    try:
        wanted = gpu_layouts(layout, len(states))
    except ValueError as exc:
        return MigPlan([str(exc)], [], "", "")
    for gpu, profiles in zip(states, wanted):
        try:
            placed = _placed(gpu, profiles)
        except ValueError as exc:
            problems.append(f"GPU {gpu.gpu}: {exc}")
            continue
        missing = _steps(gpu, profiles, placed)
        if missing:
            steps += missing
            before.append(_shown(gpu.gpu, on=bool(gpu.on), instances=gpu.instances))
            after.append(_shown(gpu.gpu, on=bool(profiles), instances=placed))
    return MigPlan(problems, [] if problems else steps, "".join(before), "".join(after))


def _placed(gpu: GpuState, profiles: Sequence[str]) -> list[tuple[str, int]]:
    if not profiles:
        return []
    if gpu.on is None:
        message = f"{gpu.model} does not support MIG"
        raise ValueError(message)
    geometry = mig_geometry(gpu.model, gpu.memory_mb)
    if geometry is None:
        message = f"no MIG profiles are known for {gpu.model} with {gpu.memory_mb:g} MiB"
        raise ValueError(message)
    return place(geometry, profiles)


def _steps(gpu: GpuState, profiles: Sequence[str], placed: Sequence[tuple[str, int]]) -> list[list[str]]:
    there = sorted(name for name, _ in gpu.instances)
    on = bool(gpu.on)
    if on == bool(profiles) and gpu.pending in {None, on} and there == sorted(profiles) and gpu.complete:
        return []
    which = ["-i", str(gpu.gpu)]
    # The first command fails on a GPU without compute instances, so its failure is ignored.
    steps = [["mig", *which, "-dci"], ["mig", *which, "-dgi"]] if gpu.instances else []
    if not profiles:
        return [*steps, [*which, "-mig", "0"]]
    steps += [] if on and gpu.pending in {None, True} else [[*which, "-mig", "1"]]
    return [*steps, ["mig", *which, "-cgi", ",".join(f"{name}:{start}" for name, start in placed), "-C"]]


def _shown(index: int, *, on: bool, instances: Sequence[tuple[str, int]]) -> str:
    lines = [f"GPU {index}: MIG {'on' if on else 'off'}", *(f"GPU {index}: {name} at {at}" for name, at in instances)]
    return "".join(f"{line}\n" for line in lines)


def boot_layout(gpu: Mapping[str, Any], layout: object) -> list[str]:
    """Return the index and instances of each GPU with MIG, such as `0 1g.10gb:0,1g.10gb:1`.

    Raises:
        ValueError: the layout does not fit the GPUs of the profile.
    """
    wanted = gpu_layouts(layout, int(gpu["count"]))
    geometry = mig_geometry(str(gpu["model"]), float(gpu["memory_mb"]))
    if geometry is None and any(wanted):
        message = f"no MIG profiles are known for {gpu['model']}"
        raise ValueError(message)
    return [
        f"{index} {','.join(f'{name}:{start}' for name, start in place(geometry, profiles))}"
        for index, profiles in enumerate(wanted)
        if profiles and geometry is not None
    ]
