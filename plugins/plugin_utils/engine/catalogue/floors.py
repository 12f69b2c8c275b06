# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""Choose the floor of a profile for a number of nodes.

busbw between nodes decreases with their number: two nodes, where a tree sends each byte once, reach more than any ring
of many nodes (see ceilings.hierarchical). A scope may therefore have ``floors`` for some counts in addition to
``floor_gbs``, which applies to any number. The rules are conservative:

- A listed count has its listed floor.
- A count between two listed ones has the lower of their floors.
- Above the last listed count, the lower of its floor and ``floor_gbs`` applies.

The counts begin with two and at most double, so that no floor applies to more than twice as many nodes. Between NVLink
domains the domains are counted.

With in-network sums (SHARP) the floor ``in_network`` applies if it is higher: NCCL uses them only if they are faster.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["NONE", "Floor", "count_problems", "floor_entries", "floor_for_count", "low_floor", "scope_entry"]

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
    """Return a profile's entry for a collective in a scope; empty if it has none."""
    entry: dict[str, Any] = ((profile or {}).get("busbw") or {}).get(scope) or {}
    if collective != "all_reduce":
        entry = (entry.get("collectives") or {}).get(collective) or {}
    return entry


def floor_for_count(entry: dict[str, Any], count: int, *, in_network: bool = False) -> Floor:
    """Return the floor of an entry for a number of nodes, or of NVLink domains; NONE if the entry is empty.

    Args:
        entry: the result of scope_entry.
        count: number of nodes or domains.
        in_network: whether network switches compute sums.
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
    """Return the problems of the counts of an entry's floors: wrong order, or gaps.

    Args:
        entry: a scope, or a collective in it, of valid form.
        where: its path, for messages.
    """
    problems = []
    before = 0
    for place, item in enumerate(entry.get("floors") or []):
        count = item["nodes"]
        most = _STEP * before if before else _FEWEST
        if count <= before:
            problems.append(f"{where}.floors[{place}].nodes: {count} after {before}: put the counts in rising order")
        elif count > most:
            missing = f"the counts begin with {_FEWEST}" if not before else f"{before} and {count} have a gap between"
            problems.append(f"{where}.floors[{place}].nodes: {missing}: add a floor for {most} nodes")
        before = max(before, count)
    return problems


def low_floor(floor: float, best: float | None) -> str:
    """Return why a floor would let nodes of half the speed pass; empty if it would not, or no value is known.

    Args:
        floor: in GB/s.
        best: the best known value of the same kind in GB/s.
    """
    if best is None or floor >= _HALF * best:
        return ""
    return f"floor {floor:g} GB/s, under half of {best:g}: raise it, or nodes of half the speed pass a validation"
