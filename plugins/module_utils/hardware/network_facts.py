"""Read network cards, RDMA ports and addresses of a host from /sys and `ip`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from .gpu_facts import listed, read

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["network_interfaces", "parse_addresses", "parse_sminfo", "pci_nics", "rdma_ports"]

_NETWORK = "02"
_INFINIBAND = "infiniband"
# Prefix of an IPv4-mapped IPv6 address (RFC 4291, 2.5.5.2) in sysfs.
_MAPPED = "0000:0000:0000:0000:0000:ffff:"


def pci_address(device: Path) -> str | None:
    """Return the PCI address behind the link `device` of a class directory, or None."""
    try:
        name = device.resolve(strict=True).name
    except OSError:
        return None
    return name if name.count(":") == 2 else None  # noqa: PLR2004 - domain:bus:device.function


def rdma_ports(root: Path) -> list[dict[str, Any]]:
    """Return the ports of all RDMA devices except virtual functions of local devices.

    Returns:
        Ports, each with `device`, `port`, `active`, `state`, `rate_gbps`, `link_layer`, `address` (on the PCI bus),
        `guid` (empty unless InfiniBand), and `roce_gids`, the indexes of RoCE v2 GIDs that map an IPv4 address.
    """
    ports = []
    for device in listed(root / "sys/class/infiniband"):
        if (device / "device/physfn").exists():
            continue
        for port in listed(device / "ports"):
            state, rate = read(port / "state"), read(port / "rate").partition(" ")[0]
            ports.append(
                {
                    "device": device.name,
                    "port": port.name,
                    "active": state.endswith("ACTIVE"),
                    "state": state.rpartition(": ")[2],
                    "rate_gbps": float(rate) if rate.replace(".", "", 1).isdigit() else None,
                    "link_layer": read(port / "link_layer"),
                    "address": pci_address(device / "device"),
                    "guid": read(port / "gids/0").replace(":", "")[16:],
                    "roce_gids": _roce_gids(port) if read(port / "link_layer") == "Ethernet" else [],
                }
            )
    return ports


def _roce_gids(port: Path) -> list[int]:
    """Return the indexes of RoCE v2 GIDs that map an IPv4 address; most table entries are empty and unreadable."""
    types = [path for path in listed(port / "gid_attrs/types") if path.name.isdigit() and read(path) == "RoCE v2"]
    return sorted(int(path.name) for path in types if read(port / "gids" / path.name).startswith(_MAPPED))


def pci_nics(root: Path) -> list[dict[str, str]]:
    """Return `address` and `vendor` of the network cards on the PCI bus, without virtual functions."""
    return [
        {"address": folder.name, "vendor": read(folder / "vendor")[2:]}
        for folder in listed(root / "sys/bus/pci/devices")
        if read(folder / "class")[2:4] == _NETWORK and not (folder / "physfn").exists()
    ]


def network_interfaces(root: Path) -> list[dict[str, Any]]:
    """Return the network interfaces that belong to a hardware device."""
    found = []
    for folder in listed(root / "sys/class/net"):
        if not (folder / "device").exists() or (folder / "device/physfn").exists():
            continue
        speed = read(folder / "speed")
        found.append(
            {
                "name": folder.name,
                "up": read(folder / "operstate") == "up",
                "rate_gbps": int(speed) / 1000 if speed.isdigit() and int(speed) else None,
                "address": pci_address(folder / "device"),
            }
        )
    return found


def parse_addresses(text: str) -> list[dict[str, Any]]:
    """Return the interfaces in the output of `ip -j address`.

    Returns:
        Interfaces, each with `name`, `infiniband`, `up`, and `addresses` with prefix length ('10.0.0.5/24'), without
        link-local ones.
    """
    try:
        found = json.loads(text)
    except ValueError:
        return []
    return [
        {
            "name": item["ifname"],
            "infiniband": item.get("link_type") == _INFINIBAND,
            "up": "UP" in item.get("flags", []),
            "addresses": [
                f"{each['local']}/{each['prefixlen']}"
                for each in item.get("addr_info", [])
                if "local" in each and each.get("scope") != "link"
            ],
        }
        for item in found
        if "ifname" in item
    ]


def parse_sminfo(text: str) -> dict[str, str] | None:
    """Return the subnet manager in the output of `sminfo`: `guid` (16 digits), `lid`, `priority` and `state`.

    Format: 'sminfo: sm lid 1 sm guid 0x248a0703009c0196, activity count 38526 priority 15 state 3 SMINFO_MASTER'.
    """
    words = text.replace(",", " ").split()
    if "guid" not in words or not any(word.startswith("SMINFO_") for word in words):
        return None
    following = dict(zip(words, words[1:]))
    return {
        "guid": following["guid"].removeprefix("0x").rjust(16, "0"),
        "lid": following.get("lid", ""),
        "priority": following.get("priority", ""),
        "state": next(word.removeprefix("SMINFO_") for word in words if word.startswith("SMINFO_")),
    }
