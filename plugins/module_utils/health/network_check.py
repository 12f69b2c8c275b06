"""Check the network cards of a node: missing or slow cards, flapping links, errors.

The limit of three link flaps in three hours is from Azure/cyclecloud-healthagent 2.0.2. Port errors do
not drain the node, because the link retransmits; a validation measures whether the link is slower.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..hardware.hardware_profile_check import nic_problems
from .counter_rates import growth
from .finding import MONITOR, RESET, Answer, Finding

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .finding import Node

__all__ = ["HOUR_S", "network_answer"]

HOUR_S = 3600.0


def network_answer(
    node: Node, facts: Mapping[str, Any], downs: Mapping[str, int], errors: Mapping[str, int] | None = None
) -> Answer:
    """Return the problems with the network cards, and the counters of link flaps and errors.

    Args:
        node: with `nics` (part of the hardware profile) and `limits`.
        facts: `rdma_ports`, `network_interfaces` and `pci_nics` of the node.
        downs: number of times each link went down since the boot, by name.
        errors: errors of each InfiniBand port since the boot, by name.
    """
    limits = node.declared["limits"]
    findings = [
        Finding("nics", RESET, f"{each['key']}: {each['problem']}", each["remedy"])
        for each in nic_problems("", node.declared.get("nics") or [], facts)
    ]
    window_s, most = float(limits["link_flaps_hours"]) * HOUR_S, int(limits["link_flaps"])
    for name, count in sorted(downs.items()):
        flaps = growth(node.samples.get(f"link_down {name}", ()), node.now, count, window_s)
        if flaps >= most:
            problem = f"link {name} went down {flaps:.0f} times in {limits['link_flaps_hours']:g} h"
            remedy = (
                f"check cable, transceiver and switch port (ethtool -m {name.partition('/')[0]}, mlxlink, ibdiagnet)"
            )
            findings.append(Finding("link_flaps", RESET, problem, remedy, f"{flaps:.0f}"))
    errors = errors or {}
    many = int(limits["infiniband_errors"])
    for name, count in sorted(errors.items()):
        grown = growth(node.samples.get(f"port_errors {name}", ()), node.now, count, HOUR_S)
        if grown > many:
            problem = f"port {name} had {grown:.0f} errors in an hour (limit {many})"
            remedy = f"clean or swap the cable, then the transceiver (mlxlink -d {name.partition('/')[0]} -m -c)"
            findings.append(Finding("infiniband_errors", MONITOR, problem, remedy, name))
    samples = {f"link_down {name}": float(count) for name, count in downs.items()}
    return Answer(findings, samples | {f"port_errors {name}": float(count) for name, count in errors.items()})
