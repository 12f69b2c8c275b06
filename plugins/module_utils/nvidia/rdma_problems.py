"""Validate the declared RDMA devices and IP over InfiniBand interfaces of hosts."""

from __future__ import annotations

import ipaddress
import re
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from ..common.problems import Problem, make_problem
from ..hardware.pci_devices import normal_address

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

__all__ = ["SOURCES", "address_problems", "declaration_problems", "shared_address_problems"]

SOURCES = ("distribution", "doca", "none")
MODES = ("datagram", "connected")
NAMINGS = ("fallback", "pci", "guid", "kernel")
ROCE_MODES = ("", "v1", "v2")
_IPOIB = "rdma_ipoib_interfaces"
_PCI = re.compile(r"(?:[0-9a-fA-F]{4,8}:)?[0-9a-fA-F]{2}:[01][0-9a-fA-F]\.[0-7]")
_DEVICE = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,62}")
_INTERFACE = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,14}")
_MODULE = re.compile(r"[a-z0-9_-]+")
_ENTRY = {"name", "address", "mode", "mtu"}
# IPoIB uses 4 bytes of the fabric's MTU, which is at most 4096; connected mode allows the IP maximum (the kernel's
# Documentation/infiniband/ipoib.rst).
_MOST = {"datagram": 4092, "connected": 65520}
_LEAST = 68
_MOST_TOS = 255


def declaration_problems(host: str, declared: Mapping[str, Any]) -> list[Problem]:
    """Return the errors in the declaration of one host.

    Args:
        host: name of the host.
        declared: `source`, `naming`, `names` and `interface_names` (PCI address to name), `modules`, `ipoib`
            (interfaces with `name`, `address`, `mode`, `mtu`), `networks`, `roce_mode`, `roce_tos`,
            `gid_index`.
    """
    return [
        *_choices(host, declared),
        *_names(host, "rdma_names", declared["names"], _DEVICE),
        *_names(host, "rdma_interface_names", declared["interface_names"], _INTERFACE),
        *_modules(host, declared["modules"]),
        *_interfaces(host, declared["ipoib"], declared["networks"]),
    ]


def _choices(host: str, declared: Mapping[str, Any]) -> Iterator[Problem]:
    for option, value, allowed in (
        ("rdma_source", declared["source"], SOURCES),
        ("rdma_naming", declared["naming"], NAMINGS),
        ("rdma_roce_mode", declared["roce_mode"], ROCE_MODES),
    ):
        if value not in allowed:
            words = ", ".join(word for word in allowed if word)
            yield make_problem([host], option, f"{value!r} is unknown", f"write one of {words}")
    gid = str(declared["gid_index"])
    if gid not in {"", "auto"} and not gid.isdigit():
        yield make_problem([host], "rdma_nccl_gid_index", f"{gid!r} is not a GID index", "write auto, a number or ''")
    if not -1 <= int(declared["roce_tos"]) <= _MOST_TOS:
        yield make_problem(
            [host],
            "rdma_roce_tos",
            f"{declared['roce_tos']} is not a type of service",
            "write 0 to 255, or -1 for none",
        )


def _names(host: str, key: str, names: object, form: re.Pattern[str]) -> Iterator[Problem]:
    """Yield the errors in a map of PCI addresses to names."""
    remedy = "write addresses in the format of lspci -D, each once: {'0000:1a:00.0': mlx5_0}"
    if not isinstance(names, dict):
        yield make_problem([host], key, "is not a mapping of PCI addresses to names", remedy)
        return
    addresses: dict[str, list[str]] = defaultdict(list)
    places: dict[str, list[str]] = defaultdict(list)
    for given, name in names.items():
        if not _PCI.fullmatch(str(given)):
            yield make_problem([host], key, f"{given!r} is not a PCI address", remedy)
            continue
        addresses[normal_address(str(given))].append(str(given))
        places[str(name)].append(str(given))
        if not form.fullmatch(str(name)):
            yield make_problem([host], f"{key}[{given}]", f"{name!r} is not a device name", "use letters and digits")
    for given_all in addresses.values():
        if len(given_all) > 1:
            yield make_problem([host], key, f"{' and '.join(given_all)} are the same PCI address", remedy)
    for name, given_all in places.items():
        if len(given_all) > 1:
            yield make_problem(
                [host], key, f"{' and '.join(given_all)} get the same name {name}", "use different names"
            )


def _modules(host: str, modules: object) -> Iterator[Problem]:
    for name in modules if isinstance(modules, list) else [modules]:
        if not _MODULE.fullmatch(str(name)):
            yield make_problem([host], "rdma_modules", f"{name!r} is not a kernel module", "list names such as ib_umad")


def _interfaces(host: str, entries: object, networks: object) -> Iterator[Problem]:
    if not isinstance(entries, list):
        yield make_problem([host], _IPOIB, "is not a list", "write [{name: ib0, address: 10.10.0.1/16}]")
        return
    known = []
    for network in networks if isinstance(networks, list) else [networks]:
        try:
            known.append(ipaddress.ip_network(str(network)))
        except ValueError as exc:
            yield make_problem([host], "rdma_ipoib_networks", f"{network}: {exc}", "write networks as 10.10.0.0/16")
    seen: set[str] = set()
    for entry in entries:
        name = str(entry.get("name")) if isinstance(entry, dict) else ""
        if not isinstance(entry, dict) or not {"name", "address"} <= set(entry) <= _ENTRY:
            yield make_problem(
                [host], _IPOIB, f"{entry!r} is not an interface", "write name and address, and mode or mtu where needed"
            )
            continue
        key = f"{_IPOIB}[{name}]"
        if not _INTERFACE.fullmatch(name):
            yield make_problem([host], key, "is not an interface name", "write a name such as ib0")
        if name in seen:
            yield make_problem([host], key, "is declared twice", "merge the two entries")
        seen.add(name)
        yield from _mode(host, key, entry)
        yield from _address(host, key, str(entry["address"]), known)


def _mode(host: str, key: str, entry: Mapping[str, Any]) -> Iterator[Problem]:
    mode, mtu = entry.get("mode", MODES[0]), entry.get("mtu", 0)
    if mode not in MODES:
        yield make_problem([host], key, f"mode {mode!r} is unknown", f"write one of {', '.join(MODES)}")
    elif mtu and not (isinstance(mtu, int) and _LEAST <= mtu <= _MOST[mode]):
        remedy = f"set at most {_MOST[mode]}, usually 2044 or 4092 in datagram mode; omit it for the kernel's default"
        yield make_problem([host], key, f"mtu {mtu} is invalid in {mode} mode", remedy)


def _address(host: str, key: str, text: str, networks: Sequence[Any]) -> Iterator[Problem]:
    try:
        found = ipaddress.ip_interface(text)
    except ValueError:
        yield make_problem([host], key, f"{text!r} is not an IP address", "write it with its prefix: 10.10.0.1/16")
        return
    own, prefix = found.network, found.max_prefixlen
    if "/" not in text:
        yield make_problem([host], key, f"{text} has no prefix", "write it with its prefix: 10.10.0.1/16")
    elif own.prefixlen < prefix - 1 and found.version == 4 and found.ip in (own.network_address, own.broadcast_address):  # noqa: PLR2004
        yield make_problem([host], key, f"{text} is the network or broadcast address", "choose an address of a host")
    if networks and not any(found.version == each.version and found.ip in each for each in networks):
        shown = ", ".join(str(each) for each in networks)
        yield make_problem(
            [host], key, f"{text} is outside of rdma_ipoib_networks ({shown})", "correct the address or the networks"
        )


def shared_address_problems(hosts: Sequence[str], hostvars: Mapping[str, Mapping[str, Any]]) -> list[Problem]:
    """Return the result of `address_problems` for the variables of hosts."""
    interfaces = {host: hostvars[host].get(_IPOIB) or [] for host in hosts}
    taken = {host: hostvars[host].get("ansible_host", "") for host in hosts} if any(interfaces.values()) else {}
    return address_problems(interfaces, taken)


def address_problems(interfaces: Mapping[str, Any], taken: Mapping[str, str]) -> list[Problem]:
    """Return duplicate IPoIB addresses, and IPoIB addresses that are a host's management address.

    Args:
        interfaces: host to its `rdma_ipoib_interfaces`.
        taken: host to its management address.
    """
    owners: dict[str, list[str]] = defaultdict(list)
    problems = []
    managed = {address: host for host, address in taken.items()}
    for host, entries in interfaces.items():
        for entry in entries if isinstance(entries, list) else []:
            if not isinstance(entry, dict):
                continue
            address = str(entry.get("address", "")).partition("/")[0]
            owners[address].append(host)
            if address in managed:
                problem = f"{address} is the management address of {managed[address]}"
                problems.append(make_problem([host], _IPOIB, problem, "choose an address of the fabric's network"))
    for address, hosts in owners.items():
        if address and len(hosts) > 1:
            problems.append(
                make_problem(hosts, _IPOIB, f"{address} is declared more than once", "use different addresses")
            )
    return problems
