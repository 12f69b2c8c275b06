"""What a run that begins puts right by itself: the preflight must not keep it from that.

The role nvidia_driver ends red where what is left out here is still so when it has done its work.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

__all__ = ["DRIVER", "SUBNET_MANAGER", "cures_of_run", "manages_subnet", "without_cured"]

# The role nvidia_driver installs, loads or renews the driver; the role rdma starts a subnet manager.
DRIVER, SUBNET_MANAGER = "driver", "subnet_manager"
# Of nvidia-smi: a driver that was upgraded and not rebooted, and one whose module is not loaded, as beside nouveau.
_DRIVER_SIGNS = ("version mismatch", "couldn't communicate with the nvidia driver")
# A GPU that waits for a fabric manager to give it its routes.
_WAITING = {"Not Started", "In Progress"}
_NO = {"", "0", "false", "no", "off", "none"}


def manages_subnet(variables: Mapping[str, Mapping[str, Any]], compute: Collection[str]) -> bool:
    """Return whether the run starts a subnet manager on any of the hosts `compute`; asked once for all of them."""
    asked = (str(variables[host].get("rdma_opensm") or "").lower() for host in compute)
    return any(word not in _NO for word in asked)


def cures_of_run(own: Mapping[str, Any], *, gets_driver: bool, subnet_manager: bool) -> set[str]:
    """Return what the playbooks of a site put right on a host.

    Args:
        own: its variables; options of roles that are not there have their defaults.
        gets_driver: whether it is one of the hosts that get a driver.
        subnet_manager: whether the run starts one.
    """
    installs = gets_driver and str(own.get("nvidia_driver_source") or "nvidia") != "none"
    keeps_kernel = str(own.get("nvidia_driver_kernel_parts") or "auto") != "skipped"
    return {*([DRIVER] if installs and keeps_kernel else []), *([SUBNET_MANAGER] if subnet_manager else [])}


def without_cured(facts: Mapping[str, Any], cures: Collection[str]) -> dict[str, Any]:
    """Return the `devices` of `node_info`, without what is about to be put right."""
    found = dict(facts)
    if DRIVER in cures:
        said = " ".join(str(error) for error in facts["errors"]).lower()
        if facts["smi_state"] == "failed" and any(sign in said for sign in _DRIVER_SIGNS):
            found |= {"smi_state": "absent", "errors": []}
        if facts.get("fabric_manager") is False:
            found["gpus"] = [_without_fabric(gpu) for gpu in facts["gpus"]]
    if SUBNET_MANAGER in cures:
        found["rdma_ports"] = [_with_manager(port) for port in facts["rdma_ports"]]
    return found


def _without_fabric(gpu: Mapping[str, Any]) -> dict[str, Any]:
    waits = (gpu.get("fabric") or {}).get("state") in _WAITING
    return {**gpu, "fabric": None, "nvlink": None} if waits else dict(gpu)


def _with_manager(port: Mapping[str, Any]) -> dict[str, Any]:
    """Return a port as it is when a subnet manager has seen it: a cable without one ends in INIT."""
    waits = port.get("link_layer") == "InfiniBand" and port["state"] == "INIT"
    return {**port, "active": True} if waits else dict(port)
