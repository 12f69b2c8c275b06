# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""Find the CPU socket of each GPU from the kernel, and compare it with the hardware profile.

Sources: the kernel's Documentation/ABI/testing/sysfs-bus-pci (local_cpulist, numa_node) and sysfs-devices-system-cpu
(physical_package_id). Sockets are numbered consecutively in ascending order of their ids, as in Slurm.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from ..common.problems import Problem, make_problem
from .gpu_facts import listed, read
from .pci_devices import normal_address

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

__all__ = ["found_sockets", "gpu_places", "place_problems"]


def gpu_places(root: Path, addresses: Sequence[str]) -> dict[str, Any]:
    """Return the CPU socket and NUMA node of each GPU, and the numbers of sockets and NUMA nodes.

    Args:
        root: directory that contains /sys.
        addresses: PCI addresses of the GPUs.

    Returns:
        `packages` and `numa_nodes` (those with CPUs) are counts. `gpus` maps each address, normalized by
        normal_address(), to `package` and `numa`, which are None if the kernel does not report them, or if the GPU is
        equally close to several.
    """
    cpus = {
        int(folder.name[3:]): read(folder / "topology/physical_package_id")
        for folder in listed(root / "sys/devices/system/cpu")
        if re.fullmatch(r"cpu\d+", folder.name)
    }
    packages = sorted({int(text) for text in cpus.values() if text.isdigit()})
    nodes = sorted(
        int(folder.name[4:])
        for folder in listed(root / "sys/devices/system/node")
        if re.fullmatch(r"node\d+", folder.name) and read(folder / "cpulist")
    )
    found = {}
    for address in addresses:
        folder = root / "sys/bus/pci/devices" / address
        near = {cpus.get(cpu, "") for cpu in _numbers(read(folder / "local_cpulist"))}
        package = next(iter(near)) if len(near) == 1 else ""
        numa = read(folder / "numa_node")
        found[normal_address(address)] = {
            "package": packages.index(int(package)) if package.isdigit() else None,
            "numa": nodes.index(int(numa)) if numa.isdigit() and int(numa) in nodes else None,
        }
    return {"packages": len(packages), "numa_nodes": len(nodes), "gpus": found}


def _numbers(text: str) -> Iterator[int]:
    """Yield the numbers in a list such as 0-3,8."""
    for match in re.finditer(r"(\d+)(?:-(\d+))?", text):
        yield from range(int(match[1]), int(match[2] or match[1]) + 1)


def place_problems(host: str, hardware: Mapping[str, Any], facts: Mapping[str, Any]) -> list[Problem]:
    """Return a problem if GPUs are on other sockets than declared; empty if the kernel does not report sockets.

    Args:
        host: name of the host.
        hardware: its hardware profile: `sockets`, and `cpu_sockets` of `gpu` in the order of the device files.
        facts: `devices` of `node_info`, with `gpu_places`.
    """
    declared = [int(socket) for socket in (hardware.get("gpu") or {}).get("cpu_sockets") or []]
    found = found_sockets(facts, int(hardware.get("sockets") or 0))
    if not declared or len(found) != len(declared) or found == declared:
        return []
    problem = (
        f"GPUs are attached to other CPU sockets (found {found}, expected {declared}, in the order of their "
        "device files)"
    )
    remedy = "correct or remove gpu.cpu_sockets in the hardware profile: Slurm would choose cores far from the GPUs"
    return [make_problem([host], "gpu.cpu_sockets", problem, remedy)]


def found_sockets(facts: Mapping[str, Any], sockets: int) -> list[int]:
    """Return the socket of each GPU in the order of the device files; empty if the kernel does not report all.

    Args:
        facts: `devices` of `node_info`, with `gpu_places`.
        sockets: number of sockets in Slurm: the machine's sockets, or its NUMA nodes with
            SlurmdParameters=numa_node_as_socket.
    """
    places = facts.get("gpu_places") or {}
    key = {places.get("numa_nodes"): "numa", places.get("packages"): "package"}.get(sockets)
    found = [(places.get("gpus") or {}).get(address, {}).get(key) for address in _in_order(facts)]
    return [] if None in found else [int(socket) for socket in found]


def _in_order(facts: Mapping[str, Any]) -> list[str]:
    """Return the addresses of the GPUs in the order of their device files, or in bus order without a driver."""
    gpus = [gpu for gpu in facts["gpus"] if gpu.get("pci_bus_id")]
    if gpus and all(gpu.get("minor_number") is not None for gpu in gpus):
        gpus = sorted(gpus, key=lambda gpu: int(gpu["minor_number"]))
        return [normal_address(str(gpu["pci_bus_id"])) for gpu in gpus]
    return sorted(normal_address(str(address)) for address in facts["pci_gpus"])
