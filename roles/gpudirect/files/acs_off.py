"""The program that has PCIe bridges redirect nothing of what GPUs and NICs want of each other; root runs it at boot.

ACS sends what peers want of each other over the root complex: GPUDirect then goes at a fraction of its speed, or not at
all (NCCL user guide, "Troubleshooting", "PCI Access Control Services"). Only bridges above GPUs and network cards are
touched; others guard devices that are none of ours. A boot, or a reset of the bridge, brings it back.

With `--look` it prints where it is on, and ends with 1 where it is. A bridge that takes no write, as where Secure Boot
locks the configuration space, is told and ends it with 2.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from ansible_collections.busbar.cluster.plugins.module_utils.hardware.gpu_reading import listed, read
from ansible_collections.busbar.cluster.plugins.module_utils.hardware.pci_devices import classify
from ansible_collections.busbar.cluster.plugins.module_utils.nvidia.gpudirect import acs_control, needed_bridges

if TYPE_CHECKING:
    from collections.abc import Sequence

_NETWORK = "02"
_WIDTH = 2


def bridges_that_redirect(root: Path) -> dict[Path, int]:
    """Return the configuration spaces of bridges above GPUs and NICs with any ACS on, and where their control is."""
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
    """Return the exit status.

    Args:
        arguments: those of the program.
        root: where /sys is.
    """
    status = 0
    for space, place in bridges_that_redirect(root).items():
        bridge = space.parent.name
        if "--look" in arguments:
            sys.stdout.write(f"{bridge}: ACS is on\n")
            status = 1
            continue
        try:
            with space.open("r+b", buffering=0) as file:
                file.seek(place)
                file.write(bytes(_WIDTH))
        except OSError as exc:
            sys.stderr.write(f"{bridge}: ACS cannot be switched off: {exc.strerror}; do it in the BIOS\n")
            status = 2
        else:
            sys.stdout.write(f"{bridge}: ACS is off\n")
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
