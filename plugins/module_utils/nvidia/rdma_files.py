"""Format the files that name RDMA devices, load kernel modules and configure IP over InfiniBand."""

from __future__ import annotations

import ipaddress
import uuid
from typing import TYPE_CHECKING, Any

from ..hardware.pci_devices import normal_address

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = [
    "HEADER",
    "IN_THE_WAY",
    "LIMITS",
    "MANAGERS",
    "MODE_RULES",
    "MODULES",
    "NAMING_RULES",
    "OURS",
    "QUERIED_PACKAGES",
    "ROCE",
    "ROCE_UNIT",
    "SLURMD",
    "apply_commands",
    "ipoib_files",
    "link_files",
    "naming_rules",
    "roce_script",
]

HEADER = "#\n# Ansible managed\n#\n"
# Supported network managers, with the folder and the name pattern of busbar's files.
MANAGERS = {
    "networkd": ("/etc/systemd/network", "20-busbar-ipoib-", ".network"),
    "NetworkManager": ("/etc/NetworkManager/system-connections", "busbar-ipoib-", ".nmconnection"),
    "ifupdown": ("/etc/network/interfaces.d", "busbar-ipoib-", ""),
}
LINKS = ("/etc/systemd/network", "10-busbar-rdma-", ".link")
# Patterns of files from earlier runs, to remove stale ones.
OURS = [f"{folder}/{prefix}*{suffix}" for folder, prefix, suffix in (*MANAGERS.values(), LINKS)]
MODE_RULES = "/etc/udev/rules.d/90-busbar-ipoib.rules"
NAMING_RULES = "/etc/udev/rules.d/60-rdma-persistent-naming.rules"
# Packages that the distribution builds from rdma-core and that DOCA-OFED does not replace.
IN_THE_WAY = (
    "ibutils",
    "libopensm8",
    "libopensm9",
    "libosmcomp4",
    "libosmcomp5",
    "libosmvendor4",
    "libosmvendor5",
    "opensm",
)
# Packages that indicate a vendor stack, in addition to those that a role installs.
_TELLING = ("mlnx-ofed-kernel-dkms", "mlnx-ofed-kernel-utils", "ofed-scripts", "rdma-core")
# Packages whose versions the plan needs, in addition to the wanted ones.
QUERIED_PACKAGES = (*IN_THE_WAY, *_TELLING)
SLURMD = "/etc/systemd/system/slurmd.service.d/busbar-rdma.conf"
LIMITS = "/etc/security/limits.d/85-busbar-rdma.conf"
MODULES = "/etc/modules-load.d/busbar-rdma.conf"
ROCE = "/usr/local/lib/busbar/roce_defaults"
ROCE_UNIT = "/etc/systemd/system/busbar-roce.service"
_NAMINGS = {"fallback": "NAME_FALLBACK", "pci": "NAME_PCI", "guid": "NAME_GUID", "kernel": "NAME_KERNEL"}
# UUIDv5 namespace, so that the UUID of a connection depends only on its name.
_SPACE = uuid.UUID("6f6c2f0e-2f0c-4c5e-9c1c-2f1f0b6d7a10")


def naming_rules(naming: str, names: Mapping[str, str]) -> str:
    """Return the udev rules that name RDMA devices; they override rdma-core's rules.

    Args:
        naming: `fallback`, `pci`, `guid` or `kernel`, for devices that are not declared.
        names: PCI address to name.
    """
    begin = 'ACTION=="add", SUBSYSTEM=="infiniband"'
    lines = [f'{begin}, KERNELS=="{normal_address(where)}", ENV{{BUSBAR_NAME}}="{names[where]}"' for where in names]
    if names:
        lines.append(f'{begin}, ENV{{BUSBAR_NAME}}=="?*", PROGRAM="rdma_rename %k NAME_FIXED %E{{BUSBAR_NAME}}"')
    lines.append(f'{begin}, ENV{{BUSBAR_NAME}}=="", PROGRAM="rdma_rename %k {_NAMINGS[naming]}"')
    return HEADER + "\n".join(lines) + "\n"


def link_files(names: Mapping[str, str]) -> list[dict[str, str]]:
    """Return the systemd.link files that name interfaces by PCI address."""
    folder, prefix, suffix = LINKS
    return [
        {
            "path": f"{folder}/{prefix}{name}{suffix}",
            "content": f"{HEADER}[Match]\nPath=pci-{normal_address(where)}\n\n[Link]\nName={name}\n",
        }
        for where, name in sorted(names.items())
    ]


def _networkd(entry: Mapping[str, Any]) -> str:
    # Add no default route, and do not let the boot wait for a fabric without a subnet manager.
    mtu = f"MTUBytes={entry['mtu']}\n" if entry["mtu"] else ""
    return (
        f"[Match]\nName={entry['name']}\n\n[Link]\n{mtu}RequiredForOnline=no\n\n"
        f"[Network]\nAddress={entry['address']}\nLinkLocalAddressing=no\nIPv6AcceptRA=no\n"
    )


def _network_manager(entry: Mapping[str, Any]) -> str:
    name, address = entry["name"], entry["address"]
    family = "ipv4" if ipaddress.ip_interface(address).version == 4 else "ipv6"  # noqa: PLR2004
    other = "ipv6" if family == "ipv4" else "ipv4"
    mtu = f"mtu={entry['mtu']}\n" if entry["mtu"] else ""
    return (
        f"[connection]\nid=busbar-ipoib-{name}\nuuid={uuid.uuid5(_SPACE, name)}\ntype=infiniband\n"
        f"interface-name={name}\n\n[infiniband]\n{mtu}transport-mode={entry['mode']}\n\n"
        f"[{family}]\nmethod=manual\naddress1={address}\nnever-default=true\n\n[{other}]\nmethod=disabled\n"
    )


def _ifupdown(entry: Mapping[str, Any]) -> str:
    name = entry["name"]
    family = "inet" if ipaddress.ip_interface(entry["address"]).version == 4 else "inet6"  # noqa: PLR2004
    mtu = f"    mtu {entry['mtu']}\n" if entry["mtu"] else ""
    mode = f"    pre-up echo {entry['mode']} >/sys/class/net/{name}/mode || true\n"
    return f"allow-hotplug {name}\niface {name} {family} static\n    address {entry['address']}\n{mode}{mtu}"


def ipoib_files(manager: str, interfaces: Sequence[Mapping[str, Any]]) -> list[dict[str, str]]:
    """Return the address configuration of interfaces for the host's network manager.

    Args:
        manager: one of MANAGERS.
        interfaces: each with `name`, `address` with prefix length, `mode` (`datagram` or `connected`) and `mtu`, 0 for
            the kernel's default.
    """
    folder, prefix, suffix = MANAGERS[manager]
    text = {"networkd": _networkd, "NetworkManager": _network_manager, "ifupdown": _ifupdown}[manager]
    files = [
        {
            "path": f"{folder}/{prefix}{entry['name']}{suffix}",
            "content": HEADER + text(entry),
            "mode": "0600" if manager == "NetworkManager" else "0644",
        }
        for entry in interfaces
    ]
    # systemd sets the mode only since version 250.
    begin = 'ACTION=="add", SUBSYSTEM=="net", ATTR{type}=="32"'
    rules = "".join(f'{begin}, NAME=="{entry["name"]}", ATTR{{mode}}="{entry["mode"]}"\n' for entry in interfaces)
    if manager == "networkd" and interfaces:
        files.append({"path": MODE_RULES, "content": HEADER + rules, "mode": "0644"})
    return files


def apply_commands(manager: str, name: str) -> list[list[str]]:
    """Return the commands that apply the file of one interface without touching others."""
    if manager == "networkd":
        return [
            ["udevadm", "trigger", "--settle", "--action=add", f"/sys/class/net/{name}"],
            ["networkctl", "reload"],
            ["networkctl", "reconfigure", name],
        ]
    if manager == "NetworkManager":
        return [["nmcli", "connection", "reload"], ["nmcli", "connection", "up", f"busbar-ipoib-{name}"]]
    return [["ifdown", "--force", name], ["ifup", name]]


def roce_script(mode: str, tos: int) -> str:
    """Return a shell script that sets the defaults of RoCE connections through the kernel's configfs.

    Args:
        mode: `v1` or `v2`; empty to leave it unchanged.
        tos: type of service, 0 to 255; -1 to leave it unchanged.
    """
    words = {"v1": "IB/RoCE v1", "v2": "RoCE v2"}
    settings = [f"        echo '{words[mode]}' >\"$settings/default_roce_mode\"\n"] if mode else []
    settings += [f'        echo {tos} >"$settings/default_roce_tos"\n'] if tos >= 0 else []
    return (
        f"#!/bin/sh\n{HEADER}\nset -e\nplace=/sys/kernel/config/rdma_cm\nmodprobe rdma_cm\n"
        "[ -d /sys/kernel/config ] && mountpoint -q /sys/kernel/config || mount -t configfs none /sys/kernel/config\n"
        "for device in /sys/class/infiniband/*; do\n"
        '    grep -qs Ethernet "$device"/ports/*/link_layer || continue\n'
        '    mkdir -p "$place/${device##*/}"\n'
        '    for settings in "$place/${device##*/}"/ports/*; do\n'
        f"{''.join(settings)}"
        "    done\n"
        "done\n"
    )
