"""What is wrong with the network cards of a node: too few, too slow, and links that go up and down. Pure.

Link flaps: three within three hours are those of Azure/cyclecloud-healthagent 2.0.2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..hardware.gpu_claims import nic_problems
from .finding import RESET, Answer, Finding
from .windows import growth

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .finding import Node

__all__ = ["HOUR_S", "network_answer"]

HOUR_S = 3600.0


def network_answer(node: Node, facts: Mapping[str, Any], downs: Mapping[str, int]) -> Answer:
    """Return what is wrong with the network cards, and how often each link went down.

    Args:
        node: with `nics`, that part of the hardware profile, and `limits`.
        facts: `rdma_ports`, `network_interfaces` and `pci_nics` of the node.
        downs: how often each link went down since the boot, by name.
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
    return Answer(findings, {f"link_down {name}": float(count) for name, count in downs.items()})
