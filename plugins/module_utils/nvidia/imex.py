# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""Compute the IMEX member lists of NVLink racks, and detect changed lists.

Source: NVIDIA's IMEX guide, "Deployment Models": the nodes_config.cfg of each member has the IP addresses of all, the
service reads it at start, and members with different lists do not connect. So a whole rack changes in one run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["NODES_FILE", "imex_changes", "nvlink_racks"]

NODES_FILE = "/etc/nvidia-imex/nodes_config.cfg"


def nvlink_racks(hosts: Sequence[str], variables: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, list[str]]]:
    """Return `hosts` and `addresses` of each NVLink rack, in inventory order.

    Args:
        hosts: possible members.
        variables: variables of each host: `nvlink_domain` is the rack; the address is `hosts_address`, or else
            `ansible_host`, or else the name.
    """
    racks: dict[str, dict[str, list[str]]] = {}
    for host in hosts:
        own = variables[host]
        domain = own.get("nvlink_domain")
        if domain:
            rack = racks.setdefault(str(domain), {"hosts": [], "addresses": []})
            rack["hosts"].append(host)
            rack["addresses"].append(str(own.get("hosts_address") or own.get("ansible_host") or host))
    return racks


def imex_changes(wanted: Sequence[str], found: Mapping[str, Any]) -> bool:
    """Return whether a running IMEX has a member list other than the declared one.

    Args:
        wanted: addresses.
        found: `imex_nodes` (text of the file) and `units` of `driver_host.read_driver`.
    """
    unit = (found.get("units") or {}).get("nvidia-imex") or {}
    there = [line.strip() for line in str(found.get("imex_nodes") or "").splitlines() if line.strip()]
    return unit.get("active") in {"active", "activating", "reloading"} and there != list(wanted)
