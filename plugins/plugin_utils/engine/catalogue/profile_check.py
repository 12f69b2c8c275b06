# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""Check hardware profiles: their form, and whether their values are consistent and physically possible."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ....module_utils.common.problems import Problem, make_problem
from ....module_utils.nvidia.gpu_settings import settings_errors
from ....module_utils.slurm.hostlist import expand_hosts
from .builtin_profiles import LIKE, profile_names, unknown_hardware
from .ceilings import alltoall, ceilings, nic_rate, nvls
from .floors import count_problems, floor_entries, low_floor
from .gres_conf import gres_problems
from .profile_schema import form_problems

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_REMEDY = "correct the profile; profile.schema.json of the collection describes its keys"

# A published value may be slightly above the computed ceiling.
_TOLERANCE = 1.05
# Line rate of PCIe 5 x16 in one direction, the fastest link between GPUs without NVLink.
_PCIE_GBS = 63.0


def profile_problems(name: str, profile: object, hosts: Iterable[str] = (), key: str = "") -> list[Problem]:
    """Return the problems with the form of a profile or, if it is valid, its contradictions.

    Args:
        name: name of the profile.
        profile: the declared profile.
        hosts: the hosts with this profile.
        key: path of the declaration; by default the name.
    """
    if isinstance(profile, dict) and profile.get(LIKE) is not None:
        return [make_problem(hosts, f"{key or f'hardware {name}'}.{LIKE}", *_unknown_like(name, profile[LIKE]))]
    problems = form_problems(profile)
    if isinstance(profile, dict) and not problems:
        problems = _gpu_problems(profile.get("gpu") or {}) + _socket_problems(profile) + _physics(profile)
    return [make_problem(hosts, key or f"hardware {name}", problem, _REMEDY) for problem in problems]


def _unknown_like(name: str, like: object) -> tuple[str, str]:
    """Return the problem with an unresolved `like`, and the remedy."""
    if like == name or like in profile_names():
        return f"{like} refers to itself", "choose another profile, or delete the line"
    problem, _ = unknown_hardware(like, profile_names())
    return problem, f"name one of {', '.join(profile_names())}, or an entry of hardware_profiles_extra"


def _gpu_problems(gpu: dict[str, Any]) -> list[str]:
    """Return problems with the GPUs' links, settings, partitions and Slurm names."""
    keys = {"mig_layout": "gpu.mig", "slurm_gres_mode": "gpu.gres_mode"}
    problems = [f"gpu.settings: {problem}" for problem in settings_errors(gpu.get("settings") or {})]
    if gpu.get("nvswitch") and not gpu["nvlink_gbs"]:
        problems.append("gpu.nvswitch: requires nvlink_gbs above 0, because NVSwitches connect NVLinks")
    return problems + [
        f"{keys[found['key']]}: {found['problem']}" for found in gres_problems([], gpu, gpu.get("mig"), None)
    ]


def _socket_problems(profile: dict[str, Any]) -> list[str]:
    """Return problems with the GPUs' CPU sockets."""
    gpu, sockets = profile.get("gpu") or {}, int(profile["sockets"])
    near = gpu.get("cpu_sockets") or []
    problems = []
    if near and len(near) != int(gpu["count"]):
        problems.append(f"gpu.cpu_sockets: has {len(near)} entries (expected {gpu['count']}, from gpu.count)")
    files = expand_hosts(str(gpu.get("device_files") or ""))
    if near and len(files) != int(gpu["count"]):
        problems.append(f"gpu.device_files: has {len(files)} files (expected one per entry of gpu.cpu_sockets)")
    if any(socket >= sockets for socket in near):
        problems.append(f"gpu.cpu_sockets: socket {max(near)} does not exist (expected 0 to {sockets - 1})")
    return problems


def _bound(profile: dict[str, Any], scope: str, collective: str = "all_reduce") -> tuple[float | None, float | None]:
    """Return the highest possible limit and floor of a scope in GB/s; None if the profile lacks the rates.

    floor_gbs applies to any number of nodes, so between nodes it cannot exceed the ceiling of a flat ring. The limit
    may be that of two nodes, which is higher because a tree sends less data.
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
        problems.append(f"p2p: floor {profile['p2p']['floor_gbs']:g} GB/s is above the line rate of {wire:g} GB/s")
    training = profile.get("training") or {}
    shares = [key for key in ("gpt_share_floor", "resnet50_share_floor") if key in training]
    if shares and "peak_tflops" not in training:
        problems.append(f"training.{shares[0]}: is a share of training.peak_tflops, which is missing")
    if profile.get("gemm") and "peak_tflops" not in {**training, **profile["gemm"]}:
        problems.append("gemm.share_floor: is a share of training.peak_tflops or gemm.peak_tflops, which are missing")
    computed = profile.get("validation_backend") != "mpi"
    for scope, entry in profile["busbw"].items():
        bound = _bound(profile, scope) if computed else (None, None)
        problems += _impossible(f"busbw.{scope}", entry, *bound)
        for name, item in (entry.get("collectives") or {}).items():
            most = entry["limit_gbs"]
            bound = _bound(profile, scope, name) if computed else (most, most)
            problems += _impossible(f"busbw.{scope}.collectives.{name}", item, *bound)
        for where, collective, item in _of_scope(scope, entry):
            problems += _of_counts(profile, where, collective, item)
    return problems


def _of_scope(scope: str, entry: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield the path, the collective and the entry of each collective in a scope."""
    yield f"busbw.{scope}", "all_reduce", entry
    for name, item in (entry.get("collectives") or {}).items():
        yield f"busbw.{scope}.collectives.{name}", name, item


def _of_counts(profile: dict[str, Any], where: str, collective: str, entry: dict[str, Any]) -> list[str]:
    """Return problems with an entry's additional floors for specific node counts and in-network reduction."""
    scope = where.split(".")[1]
    if scope == "intra_node":
        return [f"{where}.{key}: a single node has no network: remove it" for key, _item in floor_entries(entry)]
    problems = count_problems(entry, where)
    for key, item in floor_entries(entry):
        most = _most(profile, scope, collective, item.get("nodes", 2))
        if most is not None and item["floor_gbs"] > most * _TOLERANCE:
            many = f" on {item['nodes']} nodes" if "nodes" in item else ""
            problem = f"floor {item['floor_gbs']:g}{many} is above the computed ceiling of {most:.4g} GB/s"
            problems.append(f"{where}.{key}: {problem}")
    return problems


def _most(profile: dict[str, Any], scope: str, collective: str, count: int) -> float | None:
    """Return the maximum busbw of a collective on a number of nodes or NVLink domains, in GB/s; None if unknown."""
    given = (profile["busbw"].get(scope) or {}).get("limit_gbs")
    if profile.get("validation_backend") == "mpi":
        return None if given is None else float(given)
    domain = int(profile.get("nvlink_domain_nodes") or 1) if scope == "inter_domain" else 1
    found = ceilings({**profile, "busbw": {}}, count * domain, collective=collective)["limit"]
    if (profile.get("gpu") or {}).get("nvlink_gbs") or given is None or found is None:
        return None if found is None else float(found)
    return float(min(found, given))


def _impossible(where: str, entry: dict[str, Any], limit: float | None, floor: float | None) -> list[str]:
    problems = []
    given = entry.get("limit_gbs")
    if given is not None and entry["floor_gbs"] > given:
        problems.append(f"{where}: floor {entry['floor_gbs']:g} is above limit {given:g} GB/s")
    if floor is not None and entry["floor_gbs"] > floor * _TOLERANCE:
        problems.append(f"{where}: floor {entry['floor_gbs']:g} is above the computed ceiling of {floor:.4g} GB/s")
    if given is not None and limit is not None and given > limit * _TOLERANCE:
        problems.append(f"{where}: limit {given:g} is above the computed ceiling of {limit:.4g} GB/s")
    return problems


def floor_advice(catalogue: dict[str, Any]) -> list[Problem]:
    """Return a problem for each floor below half of the best known value, because a node at half speed would pass."""
    entries = [
        (f"hardware {name}: {where}{key}", item)
        for name, profile in sorted(catalogue.items())
        for scope, whole in profile["busbw"].items()
        for where, _collective, entry in _of_scope(scope, whole)
        for key, item in [("", entry), *((f".{key}", item) for key, item in floor_entries(entry))]
    ]
    found = [
        (where, *low_floor(float(entry["floor_gbs"]), float(entry["best_gbs"])).split(": ", 1))
        for where, entry in entries
        if entry.get("best_gbs") and low_floor(float(entry["floor_gbs"]), float(entry["best_gbs"]))
    ]
    return [make_problem([], *each) for each in found]
