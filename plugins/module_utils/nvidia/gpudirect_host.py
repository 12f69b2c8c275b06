"""Read driver, kernel and PCI facts for RDMA access to GPU memory."""

from __future__ import annotations

import platform
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..hardware.gpu_facts import listed, read
from ..hardware.network_facts import pci_nics
from ..hardware.pci_devices import classify
from .gpudirect import acs_redirects, loaded_driver, needed_bridges

if TYPE_CHECKING:
    from ansible.module_utils.basic import AnsibleModule

__all__ = ["read_gpudirect"]

ROOT = Path("/")
KALLSYMS = 1 << 26


def installed_driver(module: AnsibleModule) -> tuple[str, bool] | None:
    """Return the version of the driver that modprobe would load, and whether its modules are the open ones."""
    if module.get_bin_path("modinfo", opt_dirs=["/sbin", "/usr/sbin"]) is None:
        return None
    found = [module.run_command(["modinfo", "-F", field, "nvidia"]) for field in ("version", "license")]
    if any(status for status, _, _ in found) or not found[0][1].strip():
        return None
    return found[0][1].strip(), "GPL" in found[1][1]


def peer_memory(root: Path) -> bool | None:
    """Return whether ib_core supports nvidia_peermem; None if it is not loaded or its symbols cannot be read."""
    if not (root / "sys/module/ib_core").is_dir():
        return None
    try:
        with (root / "proc/kallsyms").open() as file:
            text = file.read(KALLSYMS)
    except OSError:
        return None
    return " ib_register_peer_memory_client" in text if text else None


def peermem_there(root: Path, release: str) -> bool | None:
    """Return whether the kernel has the nvidia_peermem module; None if its modules cannot be read."""
    try:
        with (root / "lib/modules" / release / "modules.dep").open() as file:
            return any("nvidia-peermem.ko" in line.partition(":")[0] for line in file)
    except OSError:
        return None


def bus(root: Path) -> dict[str, Any]:
    """Return GPUs and NICs, the bridges above them with their ACS, and the domain types of the IOMMU."""
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


def read_gpudirect(module: AnsibleModule) -> dict[str, Any]:
    """Return the facts about RDMA access to GPU memory; unknown values are None or empty.

    Returns:
        `container` (kind, empty outside containers); `kernel`; `driver` and `open` of the loaded driver, or else of the
        installed one; `loaded` (whether a driver is loaded); `peermem_there`, `peermem_loaded`; `peer_memory`
        (whether ib_core supports it); `gdrcopy_loaded`; `devices`, `acs`, `iommu`.
    """
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
