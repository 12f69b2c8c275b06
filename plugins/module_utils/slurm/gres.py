"""GPUs of one node as Slurm's generic resources: what it has, its lines of gres.conf, and what contradicts itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..common.problems import Problem, make_problem
from ..nvidia.mig_layouts import layout_counts, layout_entries, layout_problems, slurm_type

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["MODES", "gres_conf", "gres_counts", "gres_mode", "gres_problems"]

# files: the device files are declared. nvidia: slurmd reads /proc/driver/nvidia. nvml: slurmd asks NVIDIA's library.
MODES = ("files", "nvidia", "nvml")


def gres_mode(declared: str | None, gpu: Mapping[str, Any], mig: object) -> str:
    """Return how slurmd learns of a node's GPUs.

    Args:
        declared: the node's variable; None or empty where it has none, then that of the profile holds.
        gpu: the part ``gpu`` of its profile.
        mig: its MIG layout. The numbers of instances change with each layout, so that only NVML knows their files,
            unless the layout names them.
    """
    mode = str(declared or gpu.get("gres_mode") or "files")
    return "nvml" if mode == "files" and mig and not _has_files(mig) else mode


def _has_files(mig: object) -> bool:
    return all(entry.get("device_files") for entry in layout_entries(mig))


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
    lines = [
        {"Name": "gpu", "Type": slurm_type(entry), "MultipleFiles": instance}
        for entry in layout_entries(mig)
        for instance in entry.get("device_files") or []
    ]
    whole = sorted(set(range(int(gpu["count"]))) - _divided(mig, int(gpu["count"])))
    kind = gpu.get("slurm_type") or None
    return [*lines, *(_given({"Name": "gpu", "Type": kind, "File": f"/dev/nvidia{index}"}) for index in whole)]


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
        remedy = "set slurm_gres_mode: nvml, which needs a Slurm that was built with NVML"
        return [make_problem(hosts, "slurm_gres_mode", problem, remedy)]
    problems = []
    for entry in layout_entries(mig):
        files, wanted = entry.get("device_files"), int(entry.get("count", 1)) * len(_divided(entry, int(gpu["count"])))
        if files is not None and (not isinstance(files, list) or len(files) != wanted):
            problem = f"device_files of {entry['profile']} must name the files of each of its {wanted} instances"
            remedy = "give one text of files joined by commas for each instance"
            problems.append(make_problem(hosts, "mig_layout", problem, remedy))
    whole = int(gpu["count"]) - len(_divided(mig, int(gpu["count"])))
    return problems or (_name_problems(hosts, gpu, gres_mode(given, gpu, mig)) if whole else [])


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
