"""Tests of the GPUs of a host, from sysfs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ansible_collections.busbar.cluster.plugins.module_utils.hardware.gpu_facts import pci_devices

if TYPE_CHECKING:
    from pathlib import Path


def test_gpus_are_counted_without_other_devices_and_virtual_functions(tmp_path: Path) -> None:
    devices = [("a", "0x10de", "0x030200"), ("b", "0x10de", "0x068000"), ("c", "0x15b3", "0x020700")]
    for name, vendor, kind in [*devices, ("function", "0x10de", "0x030200")]:
        folder = tmp_path / "sys/bus/pci/devices" / name
        folder.mkdir(parents=True)
        (folder / "vendor").write_text(f"{vendor}\n")
        (folder / "class").write_text(f"{kind}\n")
    (tmp_path / "sys/bus/pci/devices/function/physfn").mkdir()
    assert [each["address"] for each in pci_devices(tmp_path)["gpu"]] == ["a"]
