"""Which host belongs to which slice of a run."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from busbar.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = ["Node", "Shares", "share_out"]


@dataclasses.dataclass(frozen=True)
class Node:
    """What decides where a compute node belongs.

    Attributes:
        name: its name in the inventory.
        kind: what nodes that are configured alike have in common.
        rack: its NVLink rack, whose members change together; '' for none.
    """

    name: str
    kind: tuple[str, ...] = ()
    rack: str = ""


@dataclasses.dataclass(frozen=True)
class Shares:
    """Disjoint lists of hosts.

    Attributes:
        cluster: who goes first in each play: hosts that serve the cluster, and the first compute node of each kind.
        slices: all other compute nodes.
    """

    cluster: list[str]
    slices: list[list[str]]


def share_out(hosts: Sequence[str], nodes: Iterable[Node], number: int) -> Shares:
    """Share the hosts of a run out.

    What a run decides for all nodes, as the version of the driver, it decides with the first of each kind, before
    several slices ask for it at once.

    Args:
        hosts: all of the run, in the inventory's order.
        nodes: those that are compute nodes.
        number: of slices.

    Raises:
        UsageError: there is not one for each slice.
    """
    known = {node.name: node for node in nodes}
    units: dict[str, list[str]] = {}
    kinds: dict[tuple[str, ...], str] = {}
    for name in (host for host in hosts if host in known):
        node = known[name]
        unit = f"rack {node.rack}" if node.rack else f"node {name}"
        units.setdefault(unit, []).append(name)
        kinds.setdefault(node.kind, unit)
    first = set(kinds.values())
    left = [unit for unit in units if unit not in first]
    if number > len(left):
        racks = ", an NVLink rack counting once" if any(node.rack for node in known.values()) else ""
        message = (
            f"--slices {number}: of the {len(known)} compute nodes of this run {len(left)} can be shared out{racks}, "
            f"as the first of each kind goes with the hosts that serve the cluster: say "
            f"{f'--slices {len(left)} at most' if left else 'nothing of slices'}"
        )
        raise UsageError(message)
    ahead = {name for unit in first for name in units[unit]}
    return Shares(
        [host for host in hosts if host not in known or host in ahead], _even([units[u] for u in left], number)
    )


def _even(units: Sequence[Sequence[str]], number: int) -> list[list[str]]:
    """Return the units in so many lists of about the same length, none of them empty, in their order."""
    slices: list[list[str]] = []
    left = list(units)
    for rest in range(number, 0, -1):
        goal, taken = sum(map(len, left)) / rest, list(left.pop(0))
        while len(left) >= rest and len(taken) + len(left[0]) / 2 <= goal:
            taken += left.pop(0)
        slices.append(taken)
    for unit in left:
        slices[-1] += unit
    return slices
