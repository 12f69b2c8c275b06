"""Generate and check the gres.conf lines of a node: its GPUs as Slurm generic resources (GRES)."""

from __future__ import annotations

from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from ....module_utils.common.problems import Problem, make_problem
from ....module_utils.nvidia.mig_layouts import device_name, divided, gpu_instances, gres_counts, layout_problems
from ....module_utils.slurm.hostlist import expand_hosts
from ..common.hostlist import fold_for_slurm

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

# files: gres.conf lists the device files (for MIG instances, those of the mig role). nvidia: slurmd reads
# /proc/driver/nvidia. nvml: slurmd uses NVIDIA's library.
MODES = ("files", "nvidia", "nvml")


def gres_mode(declared: str | None, gpu: Mapping[str, Any]) -> str:
    """Return how slurmd detects a node's GPUs.

    Args:
        declared: value of the node's variable; if None or empty, the profile's value applies.
        gpu: the ``gpu`` section of its profile.
    """
    return str(declared or gpu.get("gres_mode") or "files")


def gres_conf(gpu: Mapping[str, Any] | None, mig: object, mode: str, cores: int = 0) -> list[dict[str, Any]]:
    """Return a node's gres.conf lines as keys and values, without the node name.

    Slurm reads counts and types from slurm.conf, and a type matches any part of the detected name, so a node whose GPUs
    slurmd detects requires only the detection method.

    Args:
        gpu: the ``gpu`` section of its profile; ``cpu_sockets`` sets ``Cores`` to all cores of a socket.
        mig: its MIG layout.
        mode: the result of gres_mode.
        cores: cores per socket. Slurm counts cores, not threads, starting with the first socket (gres.conf(5), Cores:
            "core 0 will be the first core on the first socket").
    """
    if not gpu or not int(gpu["count"]):
        return []
    if mode != "files":
        return [{"AutoDetect": mode}]
    files = gpu.get("device_files") or None
    near = [_cores(socket, cores) for socket in gpu.get("cpu_sockets") or []]
    kind = gpu.get("slurm_type") or None
    if not mig and files and near:
        # Only consecutive files share a line, because Slurm numbers GPUs in the order of the lines, and the prolog in
        # the order of the files.
        pairs = groupby(zip(near, expand_hosts(files)), key=itemgetter(0))
        return [
            _given({"Name": "gpu", "Type": kind, "File": fold_for_slurm(name for _, name in alike), "Cores": numbers})
            for numbers, alike in pairs
        ]
    if not mig:
        return [_given({"Name": "gpu", "Type": kind, "File": files, "Count": None if files else gpu["count"]})]
    lines: list[dict[str, Any]] = []
    # smi_places() requires the order of nvidia-smi.
    for index, instances in enumerate(gpu_instances(mig, int(gpu["count"]))):
        parent, socket = device_name(index), near[index] if near else None
        if not instances:
            lines.append(_given({"Name": "gpu", "Type": kind, "File": parent, "Cores": socket}))
        for profile, number, name in instances:
            files = ",".join((parent, *(device_name(index, profile, number, end) for end in ("gi", "ci"))))
            lines.append(_given({"Name": "gpu", "Type": name, "MultipleFiles": files, "Cores": socket}))
    return lines


def smi_places(gpu: Mapping[str, Any] | None, mig: object) -> list[int]:
    """Return the position in nvidia-smi's list of each GPU or MIG instance, in the order of Slurm's indices.

    Slurm numbers instances by type (_merge_gres in src/interfaces/gres.c of Slurm 26.11), and nvidia-smi by GPU.

    Args:
        gpu: the ``gpu`` section of the node's profile.
        mig: its MIG layout.

    Raises:
        ValueError: the layout is malformed.
    """
    if not gpu or not mig:
        return []
    whole = str(gpu.get("slurm_type") or "")
    shown = [kind for each in gpu_instances(mig, int(gpu["count"])) for *_, kind in each or [("", 0, whole)]]
    return [place for kind, _ in gres_counts(gpu, mig) for place, name in enumerate(shown) if name == kind]


def _cores(socket: int, cores: int) -> str:
    """Return the numbers of a socket's cores in Slurm's order."""
    first, last = socket * cores, (socket + 1) * cores - 1
    return f"{first}-{last}" if last > first else str(first)


def _given(line: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in line.items() if value is not None}


def gres_problems(
    hosts: Sequence[str], gpu: Mapping[str, Any] | None, mig: object, declared: str | None
) -> list[Problem]:
    """Return the contradictions between GPUs, MIG layout and detection mode of hosts."""
    if not gpu or not int(gpu["count"]):
        return [make_problem(hosts, "mig_layout", "is set on a node without GPUs", "remove it")] if mig else []
    given = str(declared or gpu.get("gres_mode") or "files")
    if given not in MODES:
        return [make_problem(hosts, "slurm_gres_mode", f"{given!r} is unknown", f"use one of: {', '.join(MODES)}")]
    if mig:
        remedy = "correct gpu.mig of the hardware profile, or mig_layout or hardware of the host"
        problems = [make_problem(hosts, "mig_layout", problem, remedy) for problem in layout_problems(gpu, mig)]
        return problems or _mig_problems(hosts, gpu, mig, given)
    return _name_problems(hosts, gpu, given)


def _mig_problems(hosts: Sequence[str], gpu: Mapping[str, Any], mig: object, given: str) -> list[Problem]:
    """Return the parts of a valid layout that Slurm does not support."""
    if given == "nvidia":
        problem = "the mode nvidia detects no MIG instances, so Slurm would allocate whole GPUs, which jobs cannot use"
        remedy = "set slurm_gres_mode: files, or nvml if Slurm was built with NVML"
        return [make_problem(hosts, "slurm_gres_mode", problem, remedy)]
    whole = int(gpu["count"]) - len(divided(mig, int(gpu["count"])))
    return _name_problems(hosts, gpu, gres_mode(given, gpu)) if whole else []


def _name_problems(hosts: Sequence[str], gpu: Mapping[str, Any], mode: str) -> list[Problem]:
    """Return a problem if the declared type does not match the GPU name that Slurm detects."""
    if mode == "files":
        return []
    name, kind = "_".join(str(gpu["model"]).lower().split()), str(gpu.get("slurm_type") or "").lower()
    if kind in name:
        return []
    problem = f"slurm_type {kind} is not part of the name {name} that Slurm detects, so Slurm would ignore these GPUs"
    remedy = "set gpu.slurm_type to a part of that name, or slurm_gres_mode: files"
    return [make_problem(hosts, "slurm_gres_mode", problem, remedy)]
