# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""Choose a profile's floor for a set of nodes by their number and by whether NVLink or the network connects them.

busbw between nodes decreases with their number: two nodes, where a tree sends each byte once, are faster than any ring
of many nodes (see ceilings.hierarchical). In addition to ``floor_gbs`` for any number, a scope may therefore have
``floors`` for certain numbers of nodes (in the scope inter_domain, numbers of NVLink domains):

- For a listed number, its floor applies.
- Between two listed numbers, the lower of their floors applies.
- Above the last listed number, the lower of its floor and ``floor_gbs`` applies.

The numbers start at two, and each is at most twice the previous one, so that no floor applies to more than twice as
many nodes.

With in-network reduction (SHARP), the floor ``in_network`` applies if it is higher: NCCL uses SHARP only if it is
faster.

The trays of an NVLink rack are one NVLink domain. Two trays may be in one rack or in two, so the domain of each node
must be declared (``nvlink_domain``) and is otherwise unknown.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

from .ceilings import alltoall, nic_rate

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence


_FEWEST = 2
_STEP = 2
_HALF = 0.5


class Floor(NamedTuple):
    """A floor in GB/s, its source, and the best published value of the same kind in GB/s; None if unknown."""

    gbs: float | None = None
    source: str | None = None
    best: float | None = None


NONE = Floor()


def scope_entry(profile: dict[str, Any] | None, scope: str, collective: str) -> dict[str, Any]:
    """Return the entry of a profile for a collective in a scope; empty if it has none."""
    entry: dict[str, Any] = ((profile or {}).get("busbw") or {}).get(scope) or {}
    if collective != "all_reduce":
        entry = (entry.get("collectives") or {}).get(collective) or {}
    return entry


def floor_for_count(entry: dict[str, Any], count: int, *, in_network: bool = False) -> Floor:
    """Return the floor of an entry for a number of nodes or NVLink domains; NONE for an empty entry.

    Args:
        entry: the result of scope_entry.
        count: number of nodes or domains.
        in_network: whether network switches perform the reduction.
    """
    if not entry:
        return NONE
    listed = entry.get("floors") or []
    below = [item for item in listed if item["nodes"] <= count][-1:]
    above = [item for item in listed if item["nodes"] >= count][:1] or [entry]
    found = min((*below, *above), key=lambda item: float(item["floor_gbs"]))
    if below and below[0]["nodes"] == count:
        found = below[0]
    summed = entry.get("in_network")
    if in_network and summed and summed["floor_gbs"] > found["floor_gbs"]:
        found = summed
    best = found.get("best_gbs")
    return Floor(float(found["floor_gbs"]), found.get("source"), None if best is None else float(best))


def floor_entries(entry: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the path and the content of each additional floor of an entry."""
    for place, item in enumerate(entry.get("floors") or []):
        yield f"floors[{place}]", item
    if entry.get("in_network"):
        yield "in_network", entry["in_network"]


def count_problems(entry: dict[str, Any], where: str) -> list[str]:
    """Return the problems with the numbers of nodes of an entry's floors: wrong order or gaps.

    Args:
        entry: a valid scope, or a collective in it.
        where: its path, for messages.
    """
    problems = []
    before = 0
    for place, item in enumerate(entry.get("floors") or []):
        count = item["nodes"]
        most = _STEP * before if before else _FEWEST
        if count <= before:
            problems.append(f"{where}.floors[{place}].nodes: {count} follows {before}: sort the entries by nodes")
        elif count > most:
            missing = f"the first entry is {count}" if not before else f"{count} is more than twice {before}"
            problems.append(f"{where}.floors[{place}].nodes: {missing}: add a floor for {most} nodes")
        before = max(before, count)
    return problems


def low_floor(floor: float, best: float | None) -> str:
    """Return a problem if the floor is below half of the best known value; otherwise empty.

    Args:
        floor: in GB/s.
        best: the best known value of the same kind in GB/s.
    """
    if best is None or floor >= _HALF * best:
        return ""
    return f"floor {floor:g} GB/s is below half of {best:g}, so nodes at half speed would pass: raise it"


# Share of the NIC rate that parts of a rack must reach: that of DGX H100 (see its profile), because no values are
# published for parts of a rack.
_SHARE = 0.75
# The same for an all-reduce between two domains. With half of the NICs, a tree reaches up to 0.89 of the rate of all
# NICs (see ceilings.hierarchical), so the share is higher. Published results of node pairs reach at least 0.94.
_SHARE_OF_PAIR = 0.9
UNKNOWN_DOMAIN = "nvlink_domain is not set"


def domain_nodes(profile: Mapping[str, Any] | None) -> int:
    """Return the number of nodes in an NVLink domain of this hardware; 1 if NVLink does not connect nodes."""
    return int((profile or {}).get("nvlink_domain_nodes") or 1)


def domain_sizes(nodes: Sequence[str], domains: Mapping[str, str]) -> tuple[int, ...] | None:
    """Return the number of nodes in each NVLink domain, the largest first; None if any node's domain is unknown.

    Args:
        nodes: names of the nodes.
        domains: node to name of its domain; missing or empty if unknown.
    """
    names = [domains.get(node) or "" for node in nodes]
    return tuple(sorted(Counter(names).values(), reverse=True)) if names and all(names) else None


def domain_problem(profile: Mapping[str, Any] | None, nodes: int, sizes: Sequence[int] | None) -> str:
    """Return why no floor of a profile applies to the given nodes; empty if one applies."""
    if nodes <= 1 or domain_nodes(profile) == 1:
        return ""
    if sizes is None:
        return f"the NVLink domains of the {nodes} nodes are unknown: {UNKNOWN_DOMAIN}"
    if sum(sizes) != nodes:
        return f"{nodes} nodes took part, but the NVLink domains contain {sum(sizes)}"
    if max(sizes) > domain_nodes(profile):
        return f"nvlink_domain: {max(sizes)} nodes are in one NVLink domain (at most {domain_nodes(profile)})"
    return ""


def scope_of(profile: Mapping[str, Any], nodes: int, sizes: Sequence[int] | None = None) -> str:
    """Return the scope of a profile that applies to the given nodes; empty if unknown.

    Args:
        profile: an entry of the hardware catalogue.
        nodes: number of nodes.
        sizes: number of nodes in each NVLink domain, from domain_sizes.
    """
    if nodes <= 1:
        return "intra_node"
    if domain_nodes(profile) == 1:
        return "inter_node"
    if domain_problem(profile, nodes, sizes):
        return ""
    return "inter_node" if len(sizes or ()) == 1 else "inter_domain"


def placed_floor(
    profile: dict[str, Any] | None,
    nodes: int,
    sizes: Sequence[int] | None,
    collective: str,
    *,
    in_network: bool = False,
) -> Floor:
    """Return a profile's floor for a collective on the given nodes, or NONE.

    Profiles contain values for whole racks. Between NVLink domains, the floor is therefore limited to a share of the
    NIC rate of the smallest domain, which may be a single tray.

    Args:
        profile: an entry of the hardware catalogue, None if unknown.
        nodes: number of nodes.
        sizes: as for scope_of.
        collective: the program, without "_perf".
        in_network: whether network switches perform the reduction.
    """
    scope = scope_of(profile, nodes, sizes) if profile is not None else ""
    between = scope == "inter_domain" and sizes is not None
    count = len(sizes or ()) if between else nodes
    found = floor_for_count(scope_entry(profile, scope, collective), count, in_network=in_network)
    if found.gbs is None or profile is None or not between or sizes is None:
        return found
    gpus = int((profile.get("gpu") or {}).get("count") or 1) * min(sizes)
    wire = nic_rate(profile["nics"]) * min(sizes)
    wire = alltoall(wire, len(sizes), gpus) if collective == "alltoall" else wire
    share = _SHARE_OF_PAIR if collective == "all_reduce" and len(sizes) == 2 else _SHARE  # noqa: PLR2004 - a pair
    if found.gbs <= share * wire:
        return found
    trays = f"{min(sizes)} tray{'s' if min(sizes) > 1 else ''}"
    words = f"computed: {share:g} of the NIC rate of {trays}, {wire:.4g} GB/s"
    return Floor(round(share * wire, 4), words)


def unplaced_floors(profile: dict[str, Any] | None, nodes: int, collective: str) -> tuple[Floor, Floor]:
    """Return the lowest and the highest floor that may apply to nodes whose NVLink domains are unknown.

    Args:
        profile: an entry of the hardware catalogue.
        nodes: number of nodes, two or more.
        collective: the program, without "_perf".
    """
    domain = domain_nodes(profile)
    full, rest = divmod(nodes, domain)
    packed = (domain,) * full + ((rest,) if rest else ())
    found = [placed_floor(profile, nodes, sizes, collective) for sizes in (packed, (1,) * nodes)]
    known = sorted((floor for floor in found if floor.gbs is not None), key=lambda floor: floor.gbs or 0.0)
    return (known[0], known[-1]) if len(known) == len(found) else (NONE, NONE)
