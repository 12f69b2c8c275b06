"""Checks the options of the pxe_server role before the role changes anything."""

from __future__ import annotations

import ipaddress
import re
from collections import Counter
from typing import TYPE_CHECKING

from ...plugins.plugin_utils.role_checks import Known, Problem, make_problem

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


_MAC = re.compile(r"([0-9a-f]{2}:){5}[0-9a-f]{2}", re.IGNORECASE)
_INTERFACE = re.compile(r"[A-Za-z0-9_.-]{1,15}")
_MADE_BY = "run busbar image bundle and busbar image build"


def check(options: Known, cluster: Known) -> list[Problem]:
    """Return options that prevent machines from booting, and machines with the same address.

    Args:
        options: `address`, `content`, `dns`, `interface`, `interfaces` of the host, `kernel_options`, `machines`
            (variables of the hosts that boot), `missing` files of the content, `range`, `unknown`.
        cluster: the `host`, which is the server.
    """
    host = cluster["host"]
    own = [make_problem([host], f"pxe_server_{key}", problem, remedy) for key, problem, remedy in _own(options)]
    return [*own, *_machines(options["machines"])]


def _own(options: Known) -> Iterator[tuple[str, str, str]]:
    interface = str(options["interface"])
    if not _INTERFACE.fullmatch(interface) or interface not in options["interfaces"]:
        yield (
            "interface",
            f"interface {interface!r} does not exist",
            f"use one of {', '.join(sorted(options['interfaces']))}",
        )
    if not _is_address(options["address"]):
        yield "address", f"{options['address']!r} is not an IPv4 address", "set the host's address on that interface"
    if wrong := [str(each) for each in options["dns"] if not _is_address(each)]:
        yield "dns", f"found invalid IPv4 addresses ({', '.join(map(repr, wrong))})", "set the addresses of DNS servers"
    if options["missing"]:
        yield "content", f"{options['content']} lacks {', '.join(options['missing'])}", _MADE_BY
    limits = list(options["range"])
    if options["unknown"] and (len(limits) != 2 or not all(map(_is_address, limits))):  # noqa: PLR2004 - first and last
        yield (
            "range",
            "does not consist of a first and a last address",
            "set both addresses, or set pxe_server_unknown to false",
        )
    if "\n" in str(options["kernel_options"]):
        yield "kernel_options", "has more than one line", "write the parameters on one line"


def _machines(machines: Mapping[str, Known]) -> Iterator[Problem]:
    macs = {name: str(own["pxe_server_mac"]).lower() for name, own in machines.items()}
    count = Counter(macs.values())
    for name, mac in macs.items():
        if not _MAC.fullmatch(mac):
            yield make_problem(
                [name], "pxe_server_mac", f"{mac!r} is not a MAC address", "use an address such as 52:54:00:12:34:56"
            )
        elif count[mac] > 1:
            others = [other for other, theirs in macs.items() if theirs == mac and other != name]
            yield make_problem(
                [name],
                "pxe_server_mac",
                f"{mac} is also the MAC address of {', '.join(others)}",
                "use different addresses",
            )
        if not _is_address(machines[name].get("hosts_address")):
            problem = "is not an IPv4 address, which DHCP needs for a machine that boots from the network"
            yield make_problem([name], "hosts_address", problem, "set the address of the machine")


def _is_address(text: object) -> bool:
    try:
        return bool(ipaddress.IPv4Address(str(text)))
    except ValueError:
        return False
