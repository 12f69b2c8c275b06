"""Generate Slurm's topology from the output of `ibnetdiscover` (rdma-core, infiniband-diags).

A block describes a switch: a heading with its GUID and description, then one line per cable with the GUID of the other
end, `S-` for a switch and `H-` for a host adapter, whose description starts with the host name (as set by rdma-ndd:
"gpu1 mlx5_0"). Each cable is listed in the blocks of its two ends, adapters after switches (ibnetdiscover.c). If one of
them is missing, the output is truncated.

With several rails, a node is connected to several switches. Nodes with the same set of switches form one Slurm switch.
Switches connected through one more hop form the next level, up to a single root.
"""

from __future__ import annotations

import re
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from ..engine.common.hostlist import fold_for_slurm, fold_hosts

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_HEAD = re.compile(r'^Switch\s+\d+\s+"S-([0-9a-fA-F]+)"\s+#\s+"([^"]*)"')
_CABLE = re.compile(r'^\[\d+\](?:\[ext \d+\])?\s+"([SH])-([0-9a-fA-F]+)"\[\d+\][^#]*#\s+"([^"]*)"')
# Start of a block of any type, including routers; a port may be followed by its GUID.
_BLOCK = re.compile(r'^(?:Switch|Ca|Rt)\s+\d+\s+"([SHR]-[0-9a-fA-F]+)"')
_END = re.compile(r'^\[(\d+)\][^"]*"([SHR]-[0-9a-fA-F]+)"\[(\d+)\][^#]*#')
# Description of the adapter for in-network reduction (SHARP) inside a switch, which is not a host.
_INNER = "Aggregation Node"
_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_-]*[A-Za-z0-9])?")


def fabric_topology(text: str, nodes: Iterable[str] = ()) -> dict[str, Any]:
    """Return `slurm_topology` for a fabric.

    Args:
        text: output of ibnetdiscover.
        nodes: the compute nodes; other hosts are ignored. By default, all hosts in the fabric are nodes.

    Returns:
        `switches`, in the format of the slurm role's option `slurm_topology`, and `notes` for the user.

    Raises:
        ValueError: if the text contains no fabric with hosts, lacks nodes, or the fabric is not connected.
    """
    names, cables, hosts = _read(text)
    wanted = set(nodes)
    placed = {host: leaves for host, leaves in hosts.items() if not wanted or host in wanted}
    if not hosts:
        message = "the file contains no switch with a cable to a host; create it with: ibnetdiscover > FILE"
        raise ValueError(message)
    _refuse_half_cables(text)
    missing = sorted(wanted - set(placed))
    if missing:
        message = f"no switch of the fabric has a cable to {fold_hosts(missing)}"
        raise ValueError(message)
    units, notes = units_of(placed)
    switches, level = lowest_entries(units, names)
    return {"switches": [*switches, *_levels(level, cables)], "notes": notes}


def _refuse_half_cables(text: str) -> None:
    """Check that both ends of each cable are listed.

    Raises:
        ValueError: if one end of a cable is missing.
    """
    ends: set[tuple[tuple[str, str], tuple[str, str]]] = set()
    here = ""
    for line in text.splitlines():
        block, end = _BLOCK.match(line), _END.match(line)
        if block:
            here = block[1].lower()
        elif not line.strip():
            here = ""
        elif here and end:
            ends.add(((here, end[1]), (end[2].lower(), end[3])))
    half = sorted((one, other) for one, other in ends if (other, one) not in ends)
    if half:
        (one, port), (other, other_port) = half[0]
        message = (
            f"{len(half)} of {len(set(map(frozenset, ends)))} cables have only one end, such as port {port} of "
            f"{one} to port {other_port} of {other}: the file is truncated, or the fabric changed while it was read; "
            "run ibnetdiscover again and save its full output"
        )
        raise ValueError(message)


def _read(text: str) -> tuple[dict[str, str], dict[str, set[str]], dict[str, set[str]]]:
    """Return the names of switches, the neighbors of each switch, and the switches of each host."""
    names: dict[str, str] = {}
    cables: dict[str, set[str]] = defaultdict(set)
    hosts: dict[str, set[str]] = defaultdict(set)
    here = ""
    for line in text.splitlines():
        head, cable = _HEAD.match(line), _CABLE.match(line)
        if head:
            here = head.group(1)
            names[here] = switch_name(head.group(2))
        elif not line.strip() or line.startswith("Ca"):
            here = ""
        elif here and cable:
            kind, guid, described = cable.groups()
            if kind == "S":
                cables[here].add(guid)
                cables[guid].add(here)
            elif _INNER not in described and described.split():
                hosts[described.split()[0].partition(".")[0]].add(here)
    return names, cables, hosts


def switch_name(described: str) -> str:
    """Return the switch name in a description such as 'MF0;leaf1:MQM9700/U1' or 'leaf1', or '' if it is invalid."""
    name = described.partition(";")[2].partition(":")[0] or described
    return name if _NAME.fullmatch(name) else ""


def units_of(placed: Mapping[str, set[str]]) -> tuple[dict[frozenset[str], list[str]], list[str]]:
    """Return the nodes by set of switches, and notes; a node with a missing cable is added to the larger set."""
    units: dict[frozenset[str], list[str]] = defaultdict(list)
    notes = []
    whole = {frozenset(leaves) for leaves in placed.values()}
    for host in sorted(placed):
        leaves = frozenset(placed[host])
        larger = [other for other in whole if leaves < other]
        if larger:
            best = max(larger, key=lambda other: (len(other), sorted(other)))
            notes.append(
                f"{host} is connected to {len(leaves)} of the {len(best)} switches of its neighbours: check its cables"
            )
            leaves = best
        units[leaves].append(host)
    return dict(units), notes


def lowest_entries(
    units: Mapping[frozenset[str], list[str]], names: Mapping[str, str]
) -> tuple[list[dict[str, str]], dict[str, frozenset[str]]]:
    """Return the topology entries that contain nodes, and the switches of the fabric that belong to each."""
    taken = [names.get(next(iter(leaves)), "") for leaves in units if len(leaves) == 1]
    entries, level = [], {}
    for number, (leaves, hosts) in enumerate(sorted(units.items(), key=lambda item: item[1][0]), 1):
        own = names.get(next(iter(leaves)), "") if len(leaves) == 1 else ""
        name = own if own and taken.count(own) == 1 else f"unit{number}"
        entries.append({"name": name, "nodes": fold_for_slurm(hosts)})
        level[name] = leaves
    return entries, level


def _levels(level: dict[str, frozenset[str]], cables: Mapping[str, set[str]]) -> list[dict[str, str]]:
    """Return the upper topology entries: each level spans one more hop, up to a single root.

    Raises:
        ValueError: if the fabric is not connected.
    """
    entries: list[dict[str, str]] = []
    depth = 1
    while len(level) > 1:
        wider = {name: part.union(*(cables.get(switch, set()) for switch in part)) for name, part in level.items()}
        if wider == level:
            parts = " and ".join(sorted(level))
            message = f"the fabric is split, no cable connects {parts}: put their nodes into separate partitions"
            raise ValueError(message)
        groups = _joined(wider)
        if len(groups) < len(level):
            depth += 1
            joined = {}
            for number, group in enumerate(groups, 1):
                name = f"level{depth}-{number}" if len(groups) > 1 else "fabric"
                entries.append({"name": name, "switches": fold_for_slurm(sorted(group))})
                joined[name] = frozenset().union(*(wider[each] for each in group))
            level = joined
        else:
            level = wider
    return entries


def _joined(parts: Mapping[str, frozenset[str]]) -> list[list[str]]:
    """Group the names of parts that have switches in common."""
    groups: list[tuple[set[str], set[str]]] = []
    for name in parts:
        own, held = {name}, set(parts[name])
        for other in [group for group in groups if group[1] & held]:
            groups.remove(other)
            own |= other[0]
            held |= other[1]
        groups.append((own, held))
    return sorted(sorted(group) for group, _ in groups)
