"""Module that reads what a host has for RDMA to the memory of GPUs."""

from __future__ import annotations

DOCUMENTATION = r"""
module: gpudirect_info
author: busbar contributors
short_description: What a host has for RDMA to the memory of GPUs
description:
  - Reads the driver, the kernel and the PCI bus. What cannot be seen is null or empty, never guessed.
attributes:
  check_mode:
    description: Changes nothing in any mode.
    support: full
"""

EXAMPLES = r"""
- name: Read what RDMA has to reach GPUs
  busbar.cluster.gpudirect_info:
  register: __example_gpudirect
"""

RETURN = r"""
gpudirect:
  description:
    - C(container), its kind, empty on a host with a kernel of its own; C(kernel); C(driver) and C(open), of the loaded
      driver, else of the installed one; C(loaded), whether one is; C(peermem_there), C(peermem_loaded); C(peer_memory),
      whether ib_core takes it; C(gdrcopy_loaded); C(devices), C(acs), C(iommu).
  returned: always
  type: dict
"""

import platform
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.hardware.gpu_reading import listed, read
from ..module_utils.hardware.network import pci_nics
from ..module_utils.hardware.pci_devices import classify
from ..module_utils.nvidia.gpudirect import (
    acs_redirects,
    loaded_driver,
    needed_bridges,
)

ROOT = Path("/")
KALLSYMS = 1 << 26


def installed_driver(module: AnsibleModule) -> tuple[str, bool] | None:
    """Return version and openness of the driver that modprobe would load."""
    if module.get_bin_path("modinfo", opt_dirs=["/sbin", "/usr/sbin"]) is None:
        return None
    found = [module.run_command(["modinfo", "-F", field, "nvidia"]) for field in ("version", "license")]
    if any(status for status, _, _ in found) or not found[0][1].strip():
        return None
    return found[0][1].strip(), "GPL" in found[1][1]


def peer_memory(root: Path) -> bool | None:
    """Return whether ib_core takes nvidia_peermem; None when it is not loaded or the symbols cannot be seen."""
    if not (root / "sys/module/ib_core").is_dir():
        return None
    try:
        with (root / "proc/kallsyms").open() as file:
            text = file.read(KALLSYMS)
    except OSError:
        return None
    return " ib_register_peer_memory_client" in text if text else None


def peermem_there(root: Path, release: str) -> bool | None:
    """Return whether the kernel has the module; None where modules of it cannot be seen."""
    try:
        with (root / "lib/modules" / release / "modules.dep").open() as file:
            return any("nvidia-peermem.ko" in line.partition(":")[0] for line in file)
    except OSError:
        return None


def bus(root: Path) -> dict[str, Any]:
    """Return the GPUs and NICs, the bridges above them with their ACS, and the kinds of domains of the IOMMU."""
    devices = root / "sys/bus/pci/devices"
    gpus = [
        folder.name
        for folder in listed(devices)
        if classify(read(folder / "vendor")[2:], read(folder / "class")[2:6]) == "gpu"
    ]
    found = sorted({*gpus, *(nic["address"] for nic in pci_nics(root))})
    paths = {address: str((devices / address).resolve()) for address in found}
    acs: dict[str, bool | None] = {}
    for bridge in needed_bridges(paths):
        try:
            acs[bridge] = acs_redirects((devices / bridge / "config").read_bytes())
        except OSError:
            acs[bridge] = None
    kinds = (read(devices / address / "iommu_group/type") for address in found)
    return {"devices": found, "acs": acs, "iommu": sorted({kind for kind in kinds if kind})}


def gather(module: AnsibleModule) -> dict[str, Any]:
    """Return what the module returns."""
    release = platform.release()
    loaded = loaded_driver(read(ROOT / "proc/driver/nvidia/version"))
    driver = loaded or installed_driver(module)
    return {
        "container": read(ROOT / "run/systemd/container"),
        "kernel": release,
        "driver": driver[0] if driver else "",
        "open": driver[1] if driver else None,
        "loaded": loaded is not None,
        "peermem_there": peermem_there(ROOT, release),
        "peermem_loaded": (ROOT / "sys/module/nvidia_peermem").is_dir(),
        "peer_memory": peer_memory(ROOT),
        "gdrcopy_loaded": (ROOT / "sys/module/gdrdrv").is_dir(),
        **bus(ROOT),
    }


def main() -> None:
    """Run the module."""
    module = AnsibleModule(argument_spec={}, supports_check_mode=True)
    module.exit_json(changed=False, gpudirect=gather(module))


if __name__ == "__main__":
    main()
