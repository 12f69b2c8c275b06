# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""Generate Slurm's topology from the LLDP neighbours of nodes: `lldpctl -f json` or `-f json0` of lldpd.

In json0, each element is a list. In json, a list with one element is replaced by the element, and named elements become
objects with the name as their only key (json_element_cleanup in lldpd's json_writer.c). LLDP does not show the cables
between leaf switches, so a single entry connects all of them.
"""

from __future__ import annotations

import json
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from ..engine.common.hostlist import fold_for_slurm, fold_hosts
from .fabric_topology import lowest_entries, switch_name, units_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_TOP = "fabric"
_MOST_SHOWN = 8


def lldp_topology(heard: Mapping[str, str], interfaces: str = "*") -> dict[str, Any]:
    """Return `slurm_topology` for nodes.

    Args:
        heard: output of lldpctl by node.
        interfaces: shell pattern of the network interfaces to use.

    Returns:
        `switches`, in the format of the slurm role's option `slurm_topology`, and `notes` for the user.

    Raises:
        ValueError: if an output is invalid, a node has no switch, or nodes share only some of their switches.
    """
    names: dict[str, str] = {}
    placed: dict[str, set[str]] = {}
    for node, text in heard.items():
        placed[node] = set()
        for interface, switch, name in _switches(node, text, heard):
            if fnmatchcase(interface, interfaces):
                placed[node].add(switch)
                names[switch] = switch_name(name.partition(".")[0])
    lonely = sorted(node for node, switches in placed.items() if not switches)
    if lonely:
        where = "" if interfaces == "*" else f" at {interfaces}"
        message = (
            f"{fold_hosts(lonely)} receives no LLDP from a switch{where}: start lldpd there, and enable LLDP on the "
            "switch; `lldpctl` shows the neighbours"
        )
        raise ValueError(message)
    units, notes = units_of(placed)
    _refuse_overlap(units, names)
    entries, _level = lowest_entries(units, names)
    if len(entries) > 1:
        taken = {entry["name"] for entry in entries}
        top = next(name for name in (_TOP, "all-switches") if name not in taken)
        entries.append({"name": top, "switches": fold_for_slurm(sorted(taken))})
        notes.append(f"LLDP does not show how these switches are connected: the topology connects all of them to {top}")
    return {"switches": entries, "notes": notes}


def _refuse_overlap(units: Mapping[frozenset[str], list[str]], names: Mapping[str, str]) -> None:
    """Check that nodes with a common switch have all switches in common, because Slurm's topology is a tree.

    Raises:
        ValueError: if nodes share only some of their switches.
    """
    first: dict[str, frozenset[str]] = {}
    for switches in units:
        for switch in sorted(switches):
            other = first.setdefault(switch, switches)
            if other != switches:
                shared = ", ".join(names.get(each) or each for each in sorted(switches & other)[:_MOST_SHOWN])
                message = (
                    f"{fold_hosts(units[other])} and {fold_hosts(units[switches])} share {shared}, but not "
                    "their other switches: select the network interfaces of the fabric with --interfaces"
                )
                raise ValueError(message)


def _switches(node: str, text: str, nodes: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    """Yield interface, ID and name of each switch in a node's output.

    A neighbour with a MAC address as port ID is a host with lldpd or, through a VLAN, this node. Switches use names.

    Raises:
        ValueError: if the text is not lldpctl output.
    """
    try:
        data = json.loads(text)
    except ValueError as exc:
        message = f"{node}: `lldpctl -f json0` printed no JSON: install and start lldpd there"
        raise ValueError(message) from exc
    if not isinstance(data, dict) or "lldp" not in data:
        message = f"{node}: this is not output of `lldpctl -f json` (no key lldp)"
        raise ValueError(message)
    for top in _many(data["lldp"]):
        for interface, found in _named(top.get("interface")):
            for name, chassis in _named(found.get("chassis")):
                ports = [part for port in _many(found.get("port")) for part in _many(port.get("id"))]
                ids = [_text(part.get("value")) for part in _many(chassis.get("id"))]
                switch = next(filter(None, [*ids, name]), "")
                machine = any(part.get("type") == "mac" for part in ports) or name.partition(".")[0] in nodes
                if switch and not machine:
                    yield interface, switch, name


def _many(value: object) -> list[dict[str, Any]]:
    """Return the objects of a list, or a single object as a list."""
    return [item for item in (value if isinstance(value, list) else [value]) if isinstance(item, dict)]


def _named(value: object) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the objects in a value with their names, from a key above or inside the object, or ''."""
    for item in _many(value):
        if "name" in item or "id" in item or not all(isinstance(under, dict) for under in item.values()):
            yield _text(item.get("name")), item
        else:
            yield from item.items()


def _text(value: object) -> str:
    """Return the text in a value, which may be nested in objects and lists."""
    for item in _many(value):
        return _text(item.get("value"))
    return value if isinstance(value, str) else ""
