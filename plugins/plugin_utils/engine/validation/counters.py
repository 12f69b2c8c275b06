# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""What the ports of the nodes counted while a job ran: errors of a cable, and signs of congestion.

The job prints ``# busbar counter: before NODE DEVICE NAME VALUE`` before its tests and the same with ``after`` at their
end, zeros left out; the last line of a node is of the device ``-`` and the counter ``read``. Names are those of Linux'
Documentation/ABI/stable/sysfs-class-infiniband (IBTA's PortCounters), of ``rx_crc_errors`` in
Documentation/ABI/testing/sysfs-class-net-statistics, and of the mlx5 driver's hardware counters and ``ethtool -S``.
"""

from __future__ import annotations

import re

from ..common.hostlist import fold_hosts

__all__ = ["port_findings"]

_LINE = re.compile(
    r"^# busbar counter: (before|after) (\S{1,255}) (\S{1,64}) ([a-z0-9_]{1,64}) (\d{1,20})$", re.MULTILINE
)
_MOST_LINES = 100_000
_MOST_FINDINGS = 8
# What a bad cable, transceiver or port makes rise, and a node that is merely slow does not.
_CABLE = frozenset(
    {
        "symbol_error",
        "link_error_recovery",
        "link_downed",
        "port_rcv_errors",
        "local_link_integrity_errors",
        "rx_icrc_encapsulated",
        "rx_crc_errors",
        "rx_symbol_err_phy",
        "rx_pcs_symbol_err_phy",
    }
)


def port_findings(text: str | None, *, slow: bool) -> list[str]:
    """Return a finding for each port whose counters of errors rose during a job.

    Args:
        text: the output of the job.
        slow: whether the test did not pass: then signs of congestion are told as well, which are normal by themselves.
    """
    before: dict[tuple[str, str, str], int] = {}
    after: dict[tuple[str, str, str], int] = {}
    for number, (when, node, device, name, value) in enumerate(_LINE.findall(text or "")):
        if number >= _MOST_LINES:
            break
        (before if when == "before" else after)[node, device, name] = int(value)
    asked = {node for node, _device, name in before if name == "read"}
    cables: dict[tuple[str, str], list[str]] = {}
    crowded: dict[str, set[str]] = {}
    for (node, device, name), value in sorted(after.items()):
        # A counter that was reset in between says nothing.
        rose = value - before.get((node, device, name), 0) if node in asked else 0
        if rose > 0 and name in _CABLE:
            cables.setdefault((node, device), []).append(f"{name} +{rose}")
        elif rose > 0 and slow:
            crowded.setdefault(name, set()).add(node)
    found = [
        f"cable, transceiver or switch port at {device} of {node}: {', '.join(rises)} during the test"
        for (node, device), rises in cables.items()
    ]
    more = [f"{len(found) - _MOST_FINDINGS} more ports counted errors"] if len(found) > _MOST_FINDINGS else []
    signs = [
        f"signs of congestion or loss: {name} rose on {fold_hosts(sorted(nodes))}" for name, nodes in crowded.items()
    ]
    return found[:_MOST_FINDINGS] + more + signs
