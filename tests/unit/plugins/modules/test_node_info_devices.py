"""Tests of the module's facts about GPUs and NICs: each source, failing or hanging programs, and no devices."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

import pytest
from ansible.module_utils.testing import patch_module_args
from ansible_collections.busbar.cluster.plugins.modules import node_info
from executables import executable
from gpu_samples import gpu_xml, log_xml

if TYPE_CHECKING:
    from pathlib import Path

LINKS = "GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-0)\n\t Link 0: 26.562 GB/s\n\t Link 1: <inactive>\n"
INFORMATION = """Model: \t\t NVIDIA A100-SXM4-80GB
IRQ:   \t\t 100
GPU UUID: \t GPU-????????-????-????-????-????????????
Bus Location: \t 0000:3b:00.0
Device Minor: \t 0
"""


def program(folder: Path, script: str) -> str:
    path = folder / "nvidia-smi"
    executable(path, f"#!/bin/sh\n{script}\n")
    return str(path)


def put(root: Path, **files: str) -> None:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


@pytest.fixture
def bus(tmp_path: Path) -> Path:
    """Return a host with one GPU, one NIC with an active and a virtual port, and a bridge."""
    root = tmp_path / "root"
    pci = "sys/bus/pci/devices"
    gpu = {"vendor": "0x10de\n", "class": "0x030200\n", "current_link_width": "8", "max_link_width": "16"}
    gpu |= {"current_link_speed": "2.5 GT/s PCIe", "max_link_speed": "16.0 GT/s PCIe"}
    put(root, **{f"{pci}/0000:3b:00.0/{name}": text for name, text in gpu.items()})
    put(root, **{f"{pci}/0000:3b:00.1/vendor": "0x10de", f"{pci}/0000:3b:00.1/class": "0x040300"})
    put(root, **{f"{pci}/0000:5e:00.0/vendor": "0x15b3", f"{pci}/0000:5e:00.0/class": "0x020700"})
    port = {"state": "4: ACTIVE", "rate": "200 Gb/sec (4X HDR)", "link_layer": "InfiniBand"}
    put(root, **{f"sys/class/infiniband/mlx5_0/ports/1/{name}": text for name, text in port.items()})
    (root / "sys/class/infiniband/mlx5_0/device").symlink_to(root / pci / "0000:5e:00.0")
    put(root, **{"sys/class/net/eno1/speed": "25000", "sys/class/net/eno1/operstate": "up"})
    (root / "sys/class/net/eno1/device").symlink_to(root / pci / "0000:5e:00.0")
    put(root, **{"sys/class/net/lo/speed": ""})
    return root


def test_nvidia_smi_is_the_preferred_source(tmp_path: Path, bus: Path) -> None:
    put(tmp_path, query=log_xml(gpu_xml(0)), links=LINKS)
    smi = program(tmp_path, f'case "$*" in "-q -x") cat {tmp_path}/query ;; "nvlink -s") cat {tmp_path}/links ;; esac')
    found = node_info.devices(bus, smi, 10)
    assert (found["source"], found["smi_state"], found["errors"]) == ("nvidia-smi", "ok", [])
    assert found["gpus"][0]["nvlink"]["links_active"] == 1
    assert found["gpus"][0]["nvlink"]["inactive"] == [1]
    assert found["pci_gpus"] == ["0000:3b:00.0"]
    assert found["pci_nics"] == ["0000:5e:00.0"]
    assert [(port["device"], port["active"], port["rate_gbps"]) for port in found["rdma_ports"]] == [
        ("mlx5_0", True, 200)
    ]
    assert [(each["name"], each["up"], each["rate_gbps"]) for each in found["network_interfaces"]] == [
        ("eno1", True, 25)
    ]
    assert found["rdma_ports"][0]["address"] == "0000:5e:00.0"


def test_driver_files_are_read_if_nvidia_smi_is_missing(bus: Path) -> None:
    put(
        bus,
        **{
            "proc/driver/nvidia/version": "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.86.15  Release",
            "proc/driver/nvidia/gpus/0000:3b:00.0/information": INFORMATION,
        },
    )
    found = node_info.devices(bus, None, 10)
    assert (found["source"], found["smi_state"], found["driver_version"]) == ("proc", "absent", "570.86.15")
    gpu = found["gpus"][0]
    assert (gpu["product_name"], gpu["pci_bus_id"], gpu["uuid"]) == ("NVIDIA A100-SXM4-80GB", "0000:3b:00.0", None)


def test_pci_bus_is_read_without_a_driver(bus: Path) -> None:
    found = node_info.devices(bus, None, 10)
    assert (found["source"], found["gpu_count"]) == ("pci", 1)
    gpu = found["gpus"][0]
    assert (gpu["pcie_width_current"], gpu["pcie_width_max"]) == (8, 16)
    assert (gpu["pcie_gen_current"], gpu["pcie_gen_max"]) == (1, 4)


@pytest.mark.parametrize(
    ("script", "state", "error"),
    [
        ("echo 'No devices were found'; exit 6", "failed", "No devices were found"),
        (
            "echo 'Failed to initialize NVML: Driver/library version mismatch'; exit 18",
            "failed",
            "Failed to initialize",
        ),
        ("echo oops; exit 1", "failed", "nvidia-smi: oops"),
        ("exit 255", "failed", "nvidia-smi: exited with status 255"),
        ("echo nothing of use", "failed", ""),
        ("exit 2", "unusable", "nvidia-smi does not support the options"),
    ],
)
def test_failing_program_is_reported(tmp_path: Path, bus: Path, script: str, state: str, error: str) -> None:
    found = node_info.devices(bus, program(tmp_path, script), 10)
    assert (found["smi_state"], found["source"]) == (state, "pci")
    assert "".join(found["errors"]).startswith(error)


def test_hanging_program_is_abandoned(tmp_path: Path, bus: Path) -> None:
    began = time.monotonic()
    found = node_info.devices(bus, program(tmp_path, "trap '' TERM; sleep 30"), 0.5)
    assert time.monotonic() - began < 10
    assert (found["smi_state"], found["errors"]) == ("hung", ["nvidia-smi did not answer in 0.5 s"])


@pytest.mark.parametrize("check", [False, True])
def test_this_host_is_read_with_any_hardware(capsys: pytest.CaptureFixture[str], check: bool) -> None:  # noqa: FBT001 - a table
    with patch_module_args({"_ansible_check_mode": check, "devices": True}), pytest.raises(SystemExit) as stopped:
        node_info.main()
    found = json.loads(capsys.readouterr().out)
    assert (stopped.value.code, found["changed"]) == (0, False)
    assert found["devices"]["gpu_count"] == len(found["devices"]["gpus"])
