"""Match addresses against the networks that a site declares."""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


def network(text: object) -> ipaddress.IPv4Network | ipaddress.IPv6Network | None:
    """Parse a network or an address, which becomes a network of one address; return None for other values."""
    try:
        return ipaddress.ip_network(str(text))
    except ValueError:
        return None


def lies_in(address: str, networks: Iterable[object]) -> bool:
    """Return whether an address lies in one of the networks; invalid networks are ignored."""
    try:
        known = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return False
    if isinstance(known, ipaddress.IPv6Address) and known.ipv4_mapped:
        known = known.ipv4_mapped
    return any(one is not None and known in one for one in map(network, networks))
