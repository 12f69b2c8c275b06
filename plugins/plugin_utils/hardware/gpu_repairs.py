"""Remove from the facts the GPU faults that the run will repair, so that the preflight does not report them.

The nvidia_driver role fails if such a fault persists after the driver installation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

# The nvidia_driver role installs, loads or upgrades the driver; the rdma role starts a subnet manager.
DRIVER, SUBNET_MANAGER = "driver", "subnet_manager"
# Errors of nvidia-smi after a driver upgrade without reboot, and without the kernel module (for example with nouveau).
_DRIVER_SIGNS = ("version mismatch", "couldn't communicate with the nvidia driver")
# States of GPUs before the fabric manager has initialized them.
_WAITING = {"Not Started", "In Progress"}
_NO = {"", "0", "false", "no", "off", "none"}


def manages_subnet(variables: Mapping[str, Mapping[str, Any]], compute: Collection[str]) -> bool:
    """Return whether the run starts a subnet manager on one of the `compute` hosts."""
    values = (str(variables[host].get("rdma_opensm") or "").lower() for host in compute)
    return any(word not in _NO for word in values)


def repairs_of_run(own: Mapping[str, Any], *, gets_driver: bool, subnet_manager: bool) -> set[str]:
    """Return the faults that the site's playbooks repair on a host.

    Args:
        own: the host's variables, without role defaults.
        gets_driver: whether the run installs a driver on the host.
        subnet_manager: whether the run starts a subnet manager.
    """
    installs = gets_driver and str(own.get("nvidia_driver_source") or "nvidia") != "none"
    keeps_kernel = str(own.get("nvidia_driver_kernel_parts") or "auto") != "skipped"
    return {*([DRIVER] if installs and keeps_kernel else []), *([SUBNET_MANAGER] if subnet_manager else [])}


def without_repaired_faults(facts: Mapping[str, Any], repaired: Collection[str]) -> dict[str, Any]:
    """Return the `devices` of `node_info`, without the faults that the run repairs."""
    found = dict(facts)
    if DRIVER in repaired:
        errors = " ".join(str(error) for error in facts["errors"]).lower()
        if facts["smi_state"] == "failed" and any(sign in errors for sign in _DRIVER_SIGNS):
            found |= {"smi_state": "absent", "errors": []}
        if facts.get("fabric_manager") is False:
            found["gpus"] = [_without_fabric(gpu) for gpu in facts["gpus"]]
    if SUBNET_MANAGER in repaired:
        found["rdma_ports"] = [_with_manager(port) for port in facts["rdma_ports"]]
    return found


def _without_fabric(gpu: Mapping[str, Any]) -> dict[str, Any]:
    waits = (gpu.get("fabric") or {}).get("state") in _WAITING
    return {**gpu, "fabric": None, "nvlink": None} if waits else dict(gpu)


def _with_manager(port: Mapping[str, Any]) -> dict[str, Any]:
    """Return an InfiniBand port; its state INIT is replaced by ACTIVE, because the run starts a subnet manager."""
    waits = port.get("link_layer") == "InfiniBand" and port["state"] == "INIT"
    return {**port, "active": True} if waits else dict(port)
