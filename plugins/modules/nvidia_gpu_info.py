"""Module that reads what GPUs and NICs a host has."""

from __future__ import annotations

DOCUMENTATION = r"""
module: nvidia_gpu_info
author: busbar contributors
short_description: What GPUs and NICs a host has, and how they are
description:
  - Reads C(nvidia-smi -q -x) and C(nvidia-smi nvlink -s). Where they do not answer, /proc/driver/nvidia and the PCI bus
    tell what is there.
  - Never fails because there is no GPU or no driver, and never waits longer than it is told to; what went wrong is
    in C(errors).
extends_documentation_fragment: busbar.cluster.attributes.read_only
options:
  timeout_s:
    description: How long to wait for each run of nvidia-smi, in seconds. One that hangs is left behind.
    type: int
    default: 30
"""

EXAMPLES = r"""
- name: Read the GPUs
  busbar.cluster.nvidia_gpu_info:
  register: __example_gpus
"""

RETURN = r"""
source:
  description: Where the GPUs were read, V(nvidia-smi), V(proc) or V(pci).
  returned: always
  type: str
smi_state:
  description: >-
    V(ok), V(absent), V(failed), V(hung), or V(unusable) when nvidia-smi does not know the options.
  returned: always
  type: str
driver_version:
  description: Version of the loaded driver.
  returned: always
  type: str
cuda_version:
  description: Newest CUDA that the driver can run.
  returned: always
  type: str
attached_gpus:
  description: GPUs that the driver counts.
  returned: always
  type: int
gpu_count:
  description: GPUs that are listed.
  returned: always
  type: int
gpus:
  description: The GPUs, as C(busbar gpu parse) prints them; what is not known is null.
  returned: always
  type: list
  elements: dict
gpu_places:
  description:
    - C(packages) and C(numa_nodes), how many of them have CPUs, and C(gpus), of each address on the PCI bus the place
      of its C(package) and C(numa) among these, null where the kernel does not say.
  returned: always
  type: dict
pci_gpus:
  description: Addresses of the NVIDIA GPUs on the PCI bus.
  returned: always
  type: list
  elements: str
rdma_ports:
  description: Ports of RDMA devices with C(device), C(port), C(active), C(state), C(rate_gbps), C(link_layer).
  returned: always
  type: list
  elements: dict
network_interfaces:
  description: Interfaces with hardware behind them, with C(name), C(up), C(rate_gbps), C(address).
  returned: always
  type: list
  elements: dict
pci_nics:
  description: Addresses of the network cards on the PCI bus.
  returned: always
  type: list
  elements: str
fabric_manager:
  description: Whether a fabric manager runs, without which GPUs behind NVSwitches wait for their fabric.
  returned: always
  type: bool
errors:
  description: What went wrong, one line each.
  returned: always
  type: list
  elements: str
"""

from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.hardware.gpu_places import gpu_places
from ..module_utils.hardware.gpu_reading import (
    find_smi,
    pci_devices,
    read,
    read_gpus,
)
from ..module_utils.hardware.network import network_interfaces, rdma_ports

# nv-fabricmanager, as the kernel cuts it.
FABRIC_MANAGER = "nv-fabricmanage"


def gather(root: Path, program: str | None, timeout_s: float) -> dict[str, Any]:
    """Return all that the module returns."""
    bus = pci_devices(root)
    return {
        **read_gpus(root, bus["gpu"], program, timeout_s),
        "gpu_places": gpu_places(root, [device["address"] for device in bus["gpu"]]),
        "rdma_ports": rdma_ports(root),
        "network_interfaces": network_interfaces(root),
        "pci_nics": [device["address"] for device in bus["nic"]],
        "fabric_manager": any(read(path) == FABRIC_MANAGER for path in (root / "proc").glob("[0-9]*/comm")),
    }


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={"timeout_s": {"type": "int", "default": 30}},
        supports_check_mode=True,
    )
    module.exit_json(changed=False, **gather(Path("/"), find_smi(), module.params["timeout_s"]))


if __name__ == "__main__":
    main()
