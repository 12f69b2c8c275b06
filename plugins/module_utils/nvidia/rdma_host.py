"""Read RDMA devices and the network manager of a host from /sys, the package database, ip and sminfo."""

from __future__ import annotations

import glob
import ipaddress
import json
import platform
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..common.package_commands import installed_versions
from ..hardware.gpu_facts import listed, read
from ..hardware.network_facts import parse_addresses, parse_sminfo, pci_nics, rdma_ports
from .rdma_files import MANAGERS, MODE_RULES, MODULES, NAMING_RULES, OURS, QUERIED_PACKAGES, ROCE, ROCE_UNIT

if TYPE_CHECKING:
    from ansible.module_utils.basic import AnsibleModule

__all__ = ["read_rdma"]

ROOT = Path("/")
# Bit of CAP_SYS_RESOURCE in <linux/capability.h>.
SYS_RESOURCE = 24
UNITS = {"networkd": "systemd-networkd", "NetworkManager": "NetworkManager", "ifupdown": "networking"}


def output_of(module: AnsibleModule, *words: str) -> str:
    """Return the output of a program, or '' if it is missing or fails."""
    if module.get_bin_path(words[0], opt_dirs=["/sbin", "/usr/sbin"]) is None:
        return ""
    status, out, _ = module.run_command(list(words), environ_update={"LC_ALL": "C.UTF-8"})
    return out if status == 0 else ""


def field(text: str, name: str) -> str:
    """Return the rest of the first line that begins with `name`, or ''."""
    return next((line[len(name) :].strip() for line in text.splitlines() if line.startswith(name)), "")


def may_raise_limits(status: str) -> bool:
    """Return whether a process with this /proc/PID/status may raise its hard limits."""
    text = field(status, "CapEff:")
    return bool(text) and bool(int(text, 16) >> SYS_RESOURCE & 1)


def container(module: AnsibleModule) -> str:
    """Return the kind of container, or '' on a physical or virtual machine."""
    kind = read(ROOT / "run/systemd/container") or output_of(module, "systemd-detect-virt", "--container").strip()
    return "" if kind == "none" else kind


def manager(module: AnsibleModule) -> str:
    """Return the active network manager, or '' if none is known."""
    active = output_of(
        module, "systemctl", "show", "--property=Id,ActiveState", *(f"{unit}.service" for unit in UNITS.values())
    )
    running = {
        field(block, "Id=").removesuffix(".service")
        for block in active.split("\n\n")
        if field(block, "ActiveState=") == "active"
    }
    return next((name for name in MANAGERS if UNITS[name] in running), "")


def subnet_managers(module: AnsibleModule, ports: list[dict[str, Any]]) -> list[dict[str, str]]:
    """Return the subnet manager of each active InfiniBand port."""
    answers = (
        output_of(module, "sminfo", "-C", port["device"], "-P", port["port"])
        for port in ports
        if port["active"] and port["link_layer"] == "InfiniBand"
    )
    return [found for found in map(parse_sminfo, answers) if found]


def answering(module: AnsibleModule, wanted: list[str], interfaces: list[dict[str, Any]]) -> list[str]:
    """Return the addresses at which another host answers."""
    own = {str(ipaddress.ip_interface(each).ip) for item in interfaces for each in item["addresses"]}
    return [one for one in wanted if one not in own and output_of(module, "ping", "-c", "1", "-W", "1", one)]


def modules_loaded() -> list[str]:
    """Return the kernel modules that are loaded or built in."""
    built_in = ROOT / "lib/modules" / platform.release() / "modules.builtin"
    loaded = {folder.name for folder in listed(ROOT / "sys/module")}
    return sorted(loaded | {Path(line).stem.replace("-", "_") for line in read(built_in).splitlines()})


def read_rdma(
    module: AnsibleModule, packages: list[str], ask_addresses: list[str], *, subnet_manager: bool
) -> dict[str, Any]:
    """Return the RDMA facts of a host; unknown values are empty.

    Args:
        module: the running module.
        packages: packages to look up, in addition to those that conflict with a vendor stack.
        ask_addresses: addresses that no other host may have; each non-local one is pinged once.
        subnet_manager: whether to query the subnet manager of each InfiniBand port.

    Returns:
        `container` (kind, empty outside containers); `raises_limits`, whether root may raise hard limits;
        `memlock_hard`, PID 1's limit of locked memory; `ports`, `pci_nics`, `interfaces`, `default_interfaces` (of the
        default routes), `manager` (network manager), `modules_loaded`, `packages` (name to version), `files` (of
        earlier runs), `subnet_managers`, `answering` (addresses that another host has).
    """
    ports = rdma_ports(ROOT)
    interfaces = parse_addresses(output_of(module, "ip", "-j", "address"))
    routes = json.loads(output_of(module, "ip", "-j", "route", "show", "default") or "[]")
    ours = [*OURS, MODE_RULES, NAMING_RULES, MODULES, ROCE, ROCE_UNIT]
    return {
        "container": container(module),
        "raises_limits": may_raise_limits(read(ROOT / "proc/self/status")),
        "memlock_hard": " ".join(field(read(ROOT / "proc/1/limits"), "Max locked memory").split()[1:]),
        "ports": ports,
        "pci_nics": pci_nics(ROOT),
        "interfaces": interfaces,
        "default_interfaces": sorted({route["dev"] for route in routes if "dev" in route}),
        "manager": manager(module),
        "modules_loaded": modules_loaded(),
        "packages": installed_versions(module, sorted({*packages, *QUERIED_PACKAGES})),
        "files": sorted(path for pattern in ours for path in glob.glob(pattern)),  # noqa: PTH207 - returns strings
        "subnet_managers": subnet_managers(module, ports) if subnet_manager else [],
        "answering": answering(module, ask_addresses, interfaces),
    }
