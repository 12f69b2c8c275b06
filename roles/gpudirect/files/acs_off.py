"""Disables ACS on the PCIe bridges above GPUs and NICs; root runs this program at boot.

ACS redirects peer-to-peer traffic through the root complex, so that GPUDirect is slow or fails (NCCL user guide,
"Troubleshooting", "PCI Access Control Services"). Other bridges stay unchanged, because they isolate other devices. A
reboot or a reset of the bridge enables ACS again.

With `--look` the program prints the bridges with ACS enabled and exits with 1 if it finds any. It reports bridges that
reject the write, for example because Secure Boot locks the configuration space, and exits with 2.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from ansible_collections.busbar.cluster.plugins.module_utils.hardware.gpu_facts import listed, read
from ansible_collections.busbar.cluster.plugins.module_utils.hardware.pci_devices import classify
from ansible_collections.busbar.cluster.plugins.module_utils.nvidia.gpudirect import acs_control, needed_bridges

if TYPE_CHECKING:
    from collections.abc import Sequence

_NETWORK = "02"
_WIDTH = 2


def bridges_that_redirect(root: Path) -> dict[Path, int]:
    """Return the config space file and ACS control offset of each bridge above GPUs and NICs with ACS enabled."""
    devices = root / "sys/bus/pci/devices"
    ours = {
        folder.name: str(folder.resolve())
        for folder in listed(devices)
        if (number := read(folder / "class")[2:6]).startswith(_NETWORK)
        or classify(read(folder / "vendor")[2:], number) == "gpu"
    }
    found = {}
    for bridge in needed_bridges(ours):
        space = devices / bridge / "config"
        control = acs_control(space.read_bytes()) if space.exists() else None
        if control and control[1]:
            found[space] = control[0]
    return found


def main(arguments: Sequence[str], root: Path = Path("/")) -> int:
    """Disable ACS, or list bridges with ACS, and return the exit status.

    Args:
        arguments: the command line.
        root: the folder that contains sys/.
    """
    status = 0
    for space, place in bridges_that_redirect(root).items():
        bridge = space.parent.name
        if "--look" in arguments:
            sys.stdout.write(f"{bridge}: ACS is enabled\n")
            status = 1
            continue
        try:
            with space.open("r+b", buffering=0) as file:
                file.seek(place)
                file.write(bytes(_WIDTH))
        except OSError as exc:
            sys.stderr.write(f"{bridge}: ACS cannot be disabled: {exc.strerror}; disable it in the BIOS\n")
            status = 2
        else:
            sys.stdout.write(f"{bridge}: ACS is disabled\n")
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
