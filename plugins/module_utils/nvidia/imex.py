# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""The members of an NVLink rack as IMEX must know them, and when its service may take a new list.

Source: NVIDIA's IMEX guide, "Deployment Models": the nodes_config.cfg of each member lists the IP addresses of all, the
service reads it when it starts, and members whose lists differ do not come together. So all of a rack change in one
run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["NODES_FILE", "imex_changes", "nvlink_racks"]

NODES_FILE = "/etc/nvidia-imex/nodes_config.cfg"


def nvlink_racks(hosts: Sequence[str], variables: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, list[str]]]:
    """Return `hosts` and `addresses` of each NVLink rack, in the order of the inventory.

    Args:
        hosts: those that may be members.
        variables: of each, of which `nvlink_domain` names its rack; its address is `hosts_address`, else
            `ansible_host`, else its name.
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
    """Return whether a running IMEX has another list of members than is declared.

    Args:
        wanted: addresses.
        found: of `driver_host.read_driver`: `imex_nodes` (text of the file) and `units`.
    """
    unit = (found.get("units") or {}).get("nvidia-imex") or {}
    there = [line.strip() for line in str(found.get("imex_nodes") or "").splitlines() if line.strip()]
    return unit.get("active") in {"active", "activating", "reloading"} and there != list(wanted)
