"""GPUs of one node as Slurm's generic resources: what it has, its lines of gres.conf, and what contradicts itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..common.problems import Problem, make_problem
from ..nvidia.mig_layouts import device_name, gpu_instances, layout_counts, layout_entries, layout_problems

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["MODES", "gres_conf", "gres_counts", "gres_mode", "gres_problems"]

# files: the device files are declared; those of MIG instances have the names that the role mig gives them.
# nvidia: slurmd reads /proc/driver/nvidia. nvml: slurmd asks NVIDIA's library.
MODES = ("files", "nvidia", "nvml")


def gres_mode(declared: str | None, gpu: Mapping[str, Any]) -> str:
    """Return how slurmd learns of a node's GPUs.

    Args:
        declared: the node's variable; None or empty where it has none, then that of the profile holds.
        gpu: the part ``gpu`` of its profile.
    """
    return str(declared or gpu.get("gres_mode") or "files")


def gres_counts(gpu: Mapping[str, Any] | None, mig: object) -> list[tuple[str, int]]:
    """Return type and count of each kind of GPU of a node, MIG instances first; the type may be empty.

    Raises:
        ValueError: the layout has no valid form.
    """
    if not gpu or not int(gpu["count"]):
        return []
    count = int(gpu["count"])
    if not mig:
        return [(str(gpu.get("slurm_type") or ""), count)]
    whole = count - len(_divided(mig, count))
    found = list(layout_counts(mig, count).items())
    return [*found, (str(gpu.get("slurm_type") or ""), whole)] if whole else found


def _divided(mig: object, count: int) -> set[int]:
    """Return the indexes of the GPUs that are divided."""
    return {index for entry in layout_entries(mig) for index in entry.get("gpus") or range(count)}


def gres_conf(gpu: Mapping[str, Any] | None, mig: object, mode: str) -> list[dict[str, Any]]:
    """Return the lines of gres.conf of one node, without its name, as keys and values.

    Slurm takes the counts and types from the node's line in slurm.conf and matches a type with any part of the name
    that it detects, so a detecting node needs no more than the way.
    """
    if not gpu or not int(gpu["count"]):
        return []
    if mode != "files":
        return [{"AutoDetect": mode}]
    files = gpu.get("device_files") or None
    if not mig:
        line = {"Name": "gpu", "Type": gpu.get("slurm_type") or None, "File": files}
        return [_given({**line, "Count": None if files else gpu["count"]})]
    lines: list[dict[str, Any]] = []
    # In the order of nvidia-smi: by their places in it the prolog knows which job has which instance.
    for index, instances in enumerate(gpu_instances(mig, int(gpu["count"]))):
        parent = device_name(index)
        if not instances:
            lines.append(_given({"Name": "gpu", "Type": gpu.get("slurm_type") or None, "File": parent}))
        for profile, number, kind in instances:
            files = ",".join((parent, *(device_name(index, profile, number, end) for end in ("gi", "ci"))))
            lines.append({"Name": "gpu", "Type": kind, "MultipleFiles": files})
    return lines


def _given(line: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in line.items() if value is not None}


def gres_problems(
    hosts: Sequence[str], gpu: Mapping[str, Any] | None, mig: object, declared: str | None
) -> list[Problem]:
    """Return what contradicts itself in the GPUs, the MIG layout and the mode of hosts."""
    if not gpu or not int(gpu["count"]):
        return [make_problem(hosts, "mig_layout", "is set for a node without GPUs", "remove it")] if mig else []
    given = str(declared or gpu.get("gres_mode") or "files")
    if given not in MODES:
        return [make_problem(hosts, "slurm_gres_mode", f"{given!r} is unknown", f"use one of: {', '.join(MODES)}")]
    if mig:
        remedy = "correct the layout: gpu.mig of the hardware, or mig_layout of the host"
        problems = [make_problem(hosts, "mig_layout", problem, remedy) for problem in layout_problems(gpu, mig)]
        return problems or _mig_problems(hosts, gpu, mig, given)
    return _name_problems(hosts, gpu, given)


def _mig_problems(hosts: Sequence[str], gpu: Mapping[str, Any], mig: object, given: str) -> list[Problem]:
    """Return what Slurm cannot do with a layout that is right in itself."""
    if given == "nvidia":
        problem = "nvidia detects no MIG instances; Slurm would give out whole GPUs that no job can use"
        remedy = "set slurm_gres_mode: files, or nvml where Slurm was built with NVML"
        return [make_problem(hosts, "slurm_gres_mode", problem, remedy)]
    whole = int(gpu["count"]) - len(_divided(mig, int(gpu["count"])))
    return _name_problems(hosts, gpu, gres_mode(given, gpu)) if whole else []


def _name_problems(hosts: Sequence[str], gpu: Mapping[str, Any], mode: str) -> list[Problem]:
    """Return a problem when Slurm would not know a detected GPU by the type that is declared."""
    if mode == "files":
        return []
    name, kind = "_".join(str(gpu["model"]).lower().split()), str(gpu.get("slurm_type") or "").lower()
    if kind in name:
        return []
    problem = f"slurm_type {kind} is no part of {name}, as which Slurm detects the GPU; it would ignore all of them"
    remedy = "set gpu.slurm_type to a part of that name, or slurm_gres_mode: files"
    return [make_problem(hosts, "slurm_gres_mode", problem, remedy)]
