"""Tests of the CPU socket of each GPU, from /sys."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.busbar.cluster.plugins.module_utils.hardware.gpu_sockets import gpu_places, place_problems
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.catalogue.merged_profiles import site_catalogue

if TYPE_CHECKING:
    from pathlib import Path

ADDRESSES = [f"0000:{bus}:00.0" for bus in ("1b", "43", "52", "61", "9d", "c3", "d1", "df")]
# DGX H100: 2 x 56 cores; the second threads are numbered from 112.
NEAR = ["0-55,112-167"] * 4 + ["56-111,168-223"] * 4
H100 = site_catalogue({})["dgx_h100"]


def machine(root: Path, near: list[str], numa: list[str], *, nodes: int = 2) -> Path:
    """Write the /sys of a machine with several CPU sockets, with the kernel's numbering, and return it."""

    def write(path: str, text: str) -> None:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(f"{text}\n")

    for cpu in range(224):
        # Package IDs may have gaps.
        write(f"sys/devices/system/cpu/cpu{cpu}/topology/physical_package_id", str(cpu % 112 // 56 * 3))
    write("sys/devices/system/cpu/cpufreq/boost", "1")
    for node in range(nodes):
        write(f"sys/devices/system/node/node{node}/cpulist", str(node))
    # GPU memory is a NUMA node without CPUs.
    write(f"sys/devices/system/node/node{nodes}/cpulist", "")
    for address, cpu_list, place in zip(ADDRESSES, near, numa, strict=True):
        write(f"sys/bus/pci/devices/{address}/local_cpulist", cpu_list)
        write(f"sys/bus/pci/devices/{address}/numa_node", place)
    return root


def facts(root: Path, *, minors: list[int] | None = None) -> dict[str, Any]:
    known: list[int | None] = [*minors] if minors else [None] * 8
    gpus = [
        {"pci_bus_id": f"0000{address.upper()}", "minor_number": minor}
        for address, minor in zip(ADDRESSES, known, strict=True)
    ]
    return {"gpus": gpus, "pci_gpus": ADDRESSES, "gpu_places": gpu_places(root, ADDRESSES)}


def test_socket_of_a_gpu_follows_its_local_cores(tmp_path: Path) -> None:
    found = facts(machine(tmp_path, NEAR, ["0"] * 4 + ["1"] * 4))
    places = found["gpu_places"]
    assert (places["packages"], places["numa_nodes"]) == (2, 2)
    assert [places["gpus"][address]["package"] for address in ADDRESSES] == [0, 0, 0, 0, 1, 1, 1, 1]
    assert place_problems("gpu1", H100, found) == []


@pytest.mark.parametrize(
    ("near", "minors", "told"),
    [
        (NEAR[::-1], None, "GPUs are attached to other CPU sockets (found [1, 1, 1, 1, 0, 0, 0, 0]"),
        # The device file numbers differ from the bus order.
        (NEAR, [4, 5, 6, 7, 0, 1, 2, 3], "GPUs are attached to other CPU sockets (found [1, 1, 1, 1, 0, 0, 0, 0]"),
        (NEAR[::-1], [4, 5, 6, 7, 0, 1, 2, 3], ""),
        # Virtual machines and some firmware report all cores as local.
        (["0-223"] * 8, None, ""),
        ([""] * 8, None, ""),
    ],
)
def test_other_sockets_than_declared_are_reported(
    tmp_path: Path, near: list[str], minors: list[int], told: str
) -> None:
    problems = place_problems("gpu1", H100, facts(machine(tmp_path, near, ["-1"] * 8), minors=minors))
    assert [told in problem["problem"] for problem in problems] == ([True] if told else [])
    for problem in problems:
        assert (problem["hosts"], problem["key"]) == (["gpu1"], "gpu.cpu_sockets")
        assert "correct or remove gpu.cpu_sockets" in problem["remedy"]


def test_numa_nodes_are_used_if_slurm_treats_them_as_sockets(tmp_path: Path) -> None:
    near = [3, 3, 1, 1, 7, 7, 5, 5]
    found = facts(machine(tmp_path, NEAR, [str(node) for node in near], nodes=8))
    profile = {**H100, "sockets": 8, "gpu": {**H100["gpu"], "cpu_sockets": near}}
    assert place_problems("gpu1", profile, found) == []
    profile["gpu"]["cpu_sockets"] = sorted(near)
    assert (
        f"GPUs are attached to other CPU sockets (found {near}" in place_problems("gpu1", profile, found)[0]["problem"]
    )
    assert place_problems("gpu1", {**profile, "sockets": 4}, found) == []
