"""Tests of the selected GPUDirect RDMA mode with its reason, and of the warnings about the PCI bus."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.busbar.cluster.plugins.module_utils.nvidia.gpudirect import (
    acs_redirects,
    bus_notes,
    choose_mode,
    loaded_driver,
    needed_bridges,
)

FACTS: dict[str, Any] = {
    "rdma": True,
    "kernel": "6.12.41+deb13-amd64",
    "driver": "580.65.06",
    "open": True,
    "peermem_there": True,
    "peer_memory": False,
}
OPEN = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  Release Build  (root@host)\nGCC version: 14"
CLOSED = (
    "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.183.01  Sun May 12 19:39:15 UTC 2024\nGCC version:  gcc 12"
)


@pytest.mark.parametrize(
    ("text", "expected"), [(OPEN, ("580.65.06", True)), (CLOSED, ("535.183.01", False)), ("", None), ("GCC 12.2", None)]
)
def test_loaded_driver(text: str, expected: tuple[str, bool] | None) -> None:
    assert loaded_driver(text) == expected


@pytest.mark.parametrize(
    ("changes", "mode", "reason"),
    [
        ({}, "dmabuf", "driver 580.65.06 has open modules, kernel 6.12.41+deb13-amd64 has dma-buf"),
        ({"rdma": False}, "none", "the hardware profile has no RDMA NIC"),
        ({"driver": "", "open": None}, "", "no driver is loaded or installed"),
        (
            {"open": False, "peer_memory": True},
            "nvidia_peermem",
            "no dma-buf: the driver's modules are proprietary",
        ),
        ({"open": False, "peer_memory": None}, "nvidia_peermem", "unknown: whether ib_core"),
        ({"open": False}, "none", "no nvidia_peermem: ib_core does not support peer memory; use DOCA-OFED"),
        ({"open": False, "peer_memory": True, "peermem_there": False}, "none", "is installed without the module"),
        ({"kernel": "5.11.0-1", "peer_memory": True}, "nvidia_peermem", "kernel 5.11.0-1 is older than 5.12"),
        ({"kernel": "5.14.0-503.el9.x86_64"}, "dmabuf", "has dma-buf"),
        ({"driver": "470.256.02", "open": False, "peer_memory": True}, "nvidia_peermem", "first branch: 515"),
        (
            {"driver": "450.248.02", "open": False, "peer_memory": True},
            "none",
            "has no such module (first branch: 470)",
        ),
    ],
)
def test_auto_selects_a_mode_with_a_reason(changes: dict[str, Any], mode: str, reason: str) -> None:
    found = choose_mode("auto", FACTS | changes)
    assert found["mode"] == mode
    assert reason in found["reason"]
    assert found["problem"] == found["remedy"] == ""


@pytest.mark.parametrize(
    ("wanted", "changes", "said"),
    [
        ("peermem", {}, "'peermem' is unknown"),
        ("dmabuf", {"open": False}, "dmabuf is not possible: the driver's modules are proprietary"),
        ("dmabuf", {"kernel": "5.10.0-33-amd64"}, "kernel 5.10.0-33-amd64 is older than 5.12"),
        ("dmabuf", {"driver": "470.256.02"}, "no open modules (first branch: 515)"),
        ("nvidia_peermem", {}, "nvidia_peermem is not possible: ib_core does not support peer memory"),
        ("nvidia_peermem", {"driver": "460.106.00", "peer_memory": True}, "has no such module (first branch: 470)"),
        ("nvidia_peermem", {"peermem_there": False, "peer_memory": True}, "is installed without the module"),
    ],
)
def test_invalid_values_are_refused(wanted: str, changes: dict[str, Any], said: str) -> None:
    found = choose_mode(wanted, FACTS | changes)
    assert said in found["problem"]
    assert found["remedy"]
    assert found["mode"] == found["reason"] == ""


@pytest.mark.parametrize(
    ("wanted", "changes", "mode", "reason"),
    [
        ("none", {}, "none", "gpudirect_mode is none"),
        ("dmabuf", {}, "dmabuf", "gpudirect_mode is dmabuf"),
        ("dmabuf", {"driver": "", "open": None}, "dmabuf", "unknown: no driver is loaded or installed"),
        ("nvidia_peermem", {"peer_memory": True, "rdma": False}, "nvidia_peermem", "gpudirect_mode is nvidia_peermem"),
        ("nvidia_peermem", {"driver": "", "open": None}, "nvidia_peermem", "unknown: no driver is loaded"),
    ],
)
def test_requested_mode_is_used(wanted: str, changes: dict[str, Any], mode: str, reason: str) -> None:
    found = choose_mode(wanted, FACTS | changes)
    assert (found["mode"], found["problem"]) == (mode, "")
    assert reason in found["reason"]


def config(*capabilities: tuple[int, int], control: int = 0) -> bytes:
    """Return a PCI configuration space with extended capabilities (ID, offset) and this ACS control register."""
    space = bytearray(4096)
    for index, (number, place) in enumerate(capabilities):
        following = capabilities[index + 1][1] if index + 1 < len(capabilities) else 0
        space[place : place + 4] = (number | 1 << 16 | following << 20).to_bytes(4, "little")
        if number == 0x0D:
            space[place + 6 : place + 8] = control.to_bytes(2, "little")
    return bytes(space)


@pytest.mark.parametrize(
    ("space", "expected"),
    [
        (config((0x01, 0x100), (0x0D, 0x148), control=0b0011101), True),
        (config((0x0D, 0x100), control=0b1000), True),
        (config((0x01, 0x100), (0x0D, 0x148), control=0b0010001), False),
        (config((0x01, 0x100)), False),
        (bytes(4096), False),
        (bytes(64), None),
        (config((0x01, 0x100), (0x02, 0x100)), False),
    ],
)
def test_acs_of_a_bridge(space: bytes, expected: bool | None) -> None:  # noqa: FBT001
    assert acs_redirects(space) is expected


def test_bridges_above_devices() -> None:
    root, switch = "/sys/devices/pci0000:15/0000:15:01.0", "0000:16:00.0"
    paths = {"0000:18:00.0": f"{root}/{switch}/0000:17:00.0/0000:18:00.0", "0000:00:1f.6": "/sys/devices/pci0000:00/x"}
    assert needed_bridges(paths) == ["0000:15:01.0", "0000:16:00.0", "0000:17:00.0"]


def test_notes_on_the_bus() -> None:
    quiet: dict[str, Any] = {"devices": ["0000:18:00.0"], "acs": {"0000:17:00.0": False}, "iommu": ["identity"]}
    assert bus_notes(quiet) == []
    acs, unseen, iommu = bus_notes(
        quiet | {"acs": {"0000:17:00.0": True, "0000:16:00.0": None}, "iommu": ["DMA-FQ", "identity"]}
    )
    assert "through the root complex at 0000:17:00.0" in acs
    assert unseen == "the state of ACS is unknown at 0000:16:00.0"
    assert "the IOMMU translates DMA addresses (domain type DMA-FQ): boot with iommu=pt" in iommu
    (nothing,) = bus_notes({"devices": [], "acs": {}, "iommu": []})
    assert "ACS and IOMMU were not checked" in nothing
