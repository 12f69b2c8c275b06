# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""Checks the hardware catalogue: its form, and whether its figures are possible."""

from __future__ import annotations

from typing import Any

from ..hardware.gpu_generations import GENERATIONS
from ..nvidia.gpu_settings import settings_form
from ..slurm.gres import gres_faults
from .ceilings import alltoall, ceilings, nic_rate, nvls
from .collectives import COLLECTIVES

__all__ = ["hardware_problems", "hardware_warnings", "profile_problems"]

SCOPES = ("intra_node", "inter_node", "inter_domain")
# A limit may be a published figure just above the model.
_TOLERANCE = 1.05
# The line rate of PCIe 5 x16, the fastest way between GPUs without NVLink, one direction.
_PCIE_GBS = 63.0
_HALF = 0.5

_WHOLE = {"sockets": 1, "cores_per_socket": 1, "threads_per_core": 1, "memory_mb": 1}
_KEYS = {
    "description",
    "gpu",
    "nics",
    "busbw",
    "p2p",
    "storage",
    "training",
    "nvlink_domain_nodes",
    "validation_backend",
    *_WHOLE,
}
_GPU_TEXT = ("model", "slurm_type", "device_files")
_GPU_OPTIONAL = ("pcie_gen", "pcie_width")
_GPU_CHOICES = ("nvswitch", "generation", "settings", "mig", "gres_mode")
_GPU_KEYS = {*_GPU_TEXT, "count", "memory_mb", "nvlink_gbs", *_GPU_CHOICES, *_GPU_OPTIONAL}
_STORAGE_FLOORS = ("read_floor_bytes_per_second", "write_floor_bytes_per_second")
# The share of as many ranks alone, and samples/s of one rank.
_TRAINING_FLOORS = {"efficiency_floor": 1, "samples_per_second_floor": 1e12}
# A collective's ceiling is computed, or that of the scope; only where it is known better it is given.
_COLLECTIVE_KEYS = {"floor_gbs": True, "limit_gbs": False, "best_gbs": False, "source": True}
_SCOPE_KEYS = {"limit_gbs": True, "floor_gbs": True, "best_gbs": False, "source": True, "collectives": False}


def _is_number(value: object, least: float = 0.0) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and value >= least


def _is_whole(value: object, least: int = 0) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def hardware_problems(catalogue: object) -> list[str]:
    """Return what is wrong with a hardware catalogue, one sentence per fault; an empty list when nothing is.

    Args:
        catalogue: profile name to profile, as ``hardware_catalogue`` of the inventory.
    """
    if not isinstance(catalogue, dict):
        return ["the hardware catalogue is not a dictionary of profiles"]
    return [problem for name in sorted(catalogue, key=str) for problem in profile_problems(str(name), catalogue[name])]


def profile_problems(name: str, profile: object) -> list[str]:
    """Return what is wrong with one profile: first its form, and only when that is right its figures."""
    if not isinstance(profile, dict):
        return [f"hardware {name}: is not a dictionary"]
    problems = _form(profile)
    if not problems:
        problems = _physics(profile)
    return [f"hardware {name}: {problem}" for problem in problems]


def _form(profile: dict[str, Any]) -> list[str]:
    problems = [f"{key}: unknown key" for key in profile if key not in _KEYS]
    problems += [
        f"{key}: must be a whole number of {least} or more"
        for key, least in _WHOLE.items()
        if not _is_whole(profile.get(key), least)
    ]
    if not _is_whole(profile.get("nvlink_domain_nodes", 1), 1):
        problems.append("nvlink_domain_nodes: must be a whole number of 1 or more")
    if profile.get("validation_backend", "nccl") not in {"nccl", "mpi"}:
        problems.append("validation_backend: must be nccl or mpi")
    problems += _p2p_form(profile["p2p"]) if "p2p" in profile else []
    problems += _storage_form(profile["storage"]) if "storage" in profile else []
    problems += _training_form(profile["training"]) if "training" in profile else []
    return (
        problems + _gpu_form(profile.get("gpu")) + _nics_form(profile.get("nics")) + _busbw_form(profile.get("busbw"))
    )


def _p2p_form(p2p: object) -> list[str]:
    if not isinstance(p2p, dict) or set(p2p) != {"floor_gbs", "source"}:
        return ["p2p: must have floor_gbs and source"]
    problems = []
    if not _is_number(p2p["floor_gbs"]) or not p2p["floor_gbs"]:
        problems.append("p2p.floor_gbs: must be a number above 0")
    if not isinstance(p2p["source"], str) or not p2p["source"].strip():
        problems.append("p2p.source: every figure needs its source")
    return problems


def _training_form(training: object) -> list[str]:
    if not isinstance(training, dict) or not set(_TRAINING_FLOORS) & set(training):
        return [f"training: must have source and {' or '.join(_TRAINING_FLOORS)}"]
    problems = [f"training.{key}: unknown key" for key in training if key not in {*_TRAINING_FLOORS, "source"}]
    for key, most in _TRAINING_FLOORS.items():
        value = training.get(key, most)
        if not _is_number(value) or not 0 < value <= most:
            problems.append(f"training.{key}: must be a number above 0{' up to 1' if most == 1 else ''}")
    if not isinstance(training.get("source"), str) or not training["source"].strip():
        problems.append("training.source: every figure needs its source")
    return problems


def _storage_form(storage: object) -> list[str]:
    if not isinstance(storage, dict) or not set(_STORAGE_FLOORS) & set(storage):
        return [f"storage: must have source and {' or '.join(_STORAGE_FLOORS)}"]
    problems = [f"storage.{key}: unknown key" for key in storage if key not in {*_STORAGE_FLOORS, "source"}]
    problems += [
        f"storage.{key}: must be bytes per second above 0"
        for key in _STORAGE_FLOORS
        if key in storage and not _is_number(storage[key], 1)
    ]
    if not isinstance(storage.get("source"), str) or not storage["source"].strip():
        problems.append("storage.source: every figure needs its source")
    return problems


def _gpu_form(gpu: object) -> list[str]:
    if gpu is None:
        return []
    if not isinstance(gpu, dict):
        return ["gpu: is not a dictionary"]
    problems = [f"gpu.{key}: unknown key" for key in gpu if key not in _GPU_KEYS]
    problems += [
        f"gpu.{key}: must be a text" for key in _GPU_TEXT if not isinstance(gpu.get(key), str) or not gpu.get(key)
    ]
    problems += [
        f"gpu.{key}: must be a whole number of 1 or more"
        for key in ("count", "memory_mb", *(key for key in _GPU_OPTIONAL if key in gpu))
        if not _is_whole(gpu.get(key), 1)
    ]
    if not _is_number(gpu.get("nvlink_gbs")):
        problems.append("gpu.nvlink_gbs: must be GB/s per GPU and direction, 0 for none")
    problems += _gpu_driver_form(gpu)
    # A fault of the form above would make these stumble.
    return problems or _gpu_use_form(gpu)


def _gpu_use_form(gpu: dict[str, Any]) -> list[str]:
    """Return what is wrong with how the GPUs are set, divided and told to Slurm."""
    keys = {"mig_layout": "gpu.mig", "slurm_gres_mode": "gpu.gres_mode"}
    problems = [f"gpu.settings: {problem}" for problem in settings_form(gpu.get("settings") or {})]
    return problems + [f"{keys[key]}: {problem}" for key, problem, _ in gres_faults(gpu, gpu.get("mig"), None)]


def _gpu_driver_form(gpu: dict[str, Any]) -> list[str]:
    """Return what is wrong with the keys by which the driver is chosen."""
    problems = []
    if not isinstance(gpu.get("nvswitch", False), bool):
        problems.append("gpu.nvswitch: must be true or false")
    elif gpu.get("nvswitch") and not gpu.get("nvlink_gbs"):
        problems.append("gpu.nvswitch: GPUs behind NVSwitches have NVLinks; nvlink_gbs must be above 0")
    if gpu.get("generation", "hopper") not in GENERATIONS:
        problems.append(f"gpu.generation: must be one of {', '.join(GENERATIONS)}")
    return problems


def _nics_form(nics: object) -> list[str]:
    if not isinstance(nics, list) or not nics:
        return ["nics: must be a list of {count, gbps, rdma} with one entry or more"]
    problems = []
    for number, nic in enumerate(nics):
        if not isinstance(nic, dict) or set(nic) != {"count", "gbps", "rdma"}:
            problems.append(f"nics[{number}]: must have count, gbps and rdma")
        elif not _is_whole(nic["count"], 1) or not _is_number(nic["gbps"], 0.001) or not isinstance(nic["rdma"], bool):
            problems.append(f"nics[{number}]: count and gbps must be numbers above 0, rdma true or false")
    return problems


def _busbw_form(busbw: object) -> list[str]:
    if not isinstance(busbw, dict):
        return ["busbw: must be a dictionary of intra_node and inter_node"]
    problems = [f"busbw.{scope}: unknown scope" for scope in busbw if scope not in SCOPES]
    for scope in (scope for scope in SCOPES if scope in busbw):
        problems += _scope_form(f"busbw.{scope}", busbw[scope])
        collectives = busbw[scope].get("collectives", {}) if isinstance(busbw[scope], dict) else {}
        if not isinstance(collectives, dict):
            problems.append(f"busbw.{scope}.collectives: is not a dictionary")
        else:
            for name, entry in collectives.items():
                where = f"busbw.{scope}.collectives.{name}"
                if name not in COLLECTIVES or name == "all_reduce":
                    problems.append(f"{where}: is not one of {', '.join(COLLECTIVES[1:])}")
                problems += _scope_form(where, entry, _COLLECTIVE_KEYS)
    return problems


def _scope_form(where: str, entry: object, keys: dict[str, bool] | None = None) -> list[str]:
    """Return what is wrong with the form of a scope or collective; keys tells which there are, and which must be."""
    keys = keys or _SCOPE_KEYS
    if not isinstance(entry, dict):
        return [f"{where}: must have {', '.join(key for key, needed in keys.items() if needed)}"]
    problems = [f"{where}.{key}: unknown key" for key in entry if key not in keys]
    problems += [
        f"{where}.{key}: must be a number above 0"
        for key in ("limit_gbs", "floor_gbs")
        if (keys[key] or key in entry) and (not _is_number(entry.get(key)) or not entry[key])
    ]
    if "best_gbs" in entry and not _is_number(entry["best_gbs"]):
        problems.append(f"{where}.best_gbs: must be a number")
    if not isinstance(entry.get("source"), str) or not entry.get("source", "").strip():
        problems.append(f"{where}.source: every figure needs its source")
    return problems


def _bound(profile: dict[str, Any], scope: str, collective: str = "all_reduce") -> tuple[float | None, float | None]:
    """Return how high a limit and a floor of a scope can be, GB/s; None where the profile does not tell.

    A floor holds for any number of nodes, so between nodes it cannot be above what a flat ring can carry. The limit may
    be that of two nodes, where a tree moves less data over the wire.
    """
    gpu = profile.get("gpu") or {}
    gpus, line = int(gpu.get("count") or 1), float(gpu.get("nvlink_gbs") or 0)
    domain = int(profile.get("nvlink_domain_nodes") or 1)
    wire = nic_rate(profile["nics"])
    if scope == "intra_node" or (scope == "inter_node" and domain > 1):
        ranks = gpus if scope == "intra_node" else gpus * domain
        summed = nvls(line, ranks) if collective == "all_reduce" else None
        most = max(line, summed or 0.0) if line > 0 else _PCIE_GBS
        return most, most
    if collective == "alltoall":
        return alltoall(wire * domain, 2, gpus * domain), wire / gpus
    inside = max(line, nvls(line, gpus * domain) or 0.0) if line > 0 else None
    two = ceilings({**profile, "busbw": {}}, 2 * domain)["limit"]
    wire *= domain
    floor = wire if inside is None else min(wire, inside)
    return (max(floor, two) if two is not None else floor), floor


def _physics(profile: dict[str, Any]) -> list[str]:
    problems = []
    wire = float((profile.get("gpu") or {}).get("nvlink_gbs") or 0) or _PCIE_GBS
    if profile.get("p2p") and profile["p2p"]["floor_gbs"] > wire:
        problems.append(f"p2p: no pair of GPUs reaches the floor {profile['p2p']['floor_gbs']:g}; {wire:g} GB/s is all")
    computed = profile.get("validation_backend") != "mpi"
    for scope, entry in profile["busbw"].items():
        bound = _bound(profile, scope) if computed else (None, None)
        problems += _impossible(f"busbw.{scope}", entry, *bound)
        for name, item in (entry.get("collectives") or {}).items():
            most = entry["limit_gbs"]
            bound = _bound(profile, scope, name) if computed else (most, most)
            problems += _impossible(f"busbw.{scope}.collectives.{name}", item, *bound)
    return problems


def _impossible(where: str, entry: dict[str, Any], limit: float | None, floor: float | None) -> list[str]:
    problems = []
    given = entry.get("limit_gbs")
    if given is not None and entry["floor_gbs"] > given:
        problems.append(f"{where}: floor {entry['floor_gbs']:g} is above limit {given:g} GB/s")
    if floor is not None and entry["floor_gbs"] > floor * _TOLERANCE:
        problems.append(
            f"{where}: no hardware reaches the floor {entry['floor_gbs']:g}; the ceiling is {floor:.4g} GB/s"
        )
    if given is not None and limit is not None and given > limit * _TOLERANCE:
        problems.append(f"{where}: limit {given:g} is above the computed ceiling {limit:.4g} GB/s")
    return problems


def hardware_warnings(catalogue: dict[str, Any]) -> list[str]:
    """Return floors that would let a node of half speed pass: under half of the best known figure.

    Args:
        catalogue: one in which hardware_problems finds nothing.
    """
    entries = [
        (f"hardware {name}: busbw.{where}", entry)
        for name, profile in sorted(catalogue.items())
        for scope, whole in profile["busbw"].items()
        for where, entry in [
            (scope, whole),
            *((f"{scope}.collectives.{key}", item) for key, item in (whole.get("collectives") or {}).items()),
        ]
    ]
    return [
        f"{where}: floor {entry['floor_gbs']:g} GB/s, under half of {entry['best_gbs']:g}"
        for where, entry in entries
        if entry.get("best_gbs") and entry["floor_gbs"] < _HALF * entry["best_gbs"]
    ]
