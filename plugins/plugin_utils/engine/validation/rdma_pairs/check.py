# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""Says whether each rail carries its rate from each node to its neighbours, and back.

Every node is measured with two neighbours, where there are three nodes or more, as sender and as receiver. A node is
to blame for a rail when all that it sends, or all that it receives, is too slow, and each of those neighbours does its
part well enough with somebody else; of a pair that is slow otherwise nobody can say more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..judge import FAIL, INCONCLUSIVE, PASS

if TYPE_CHECKING:
    from .output import Measured, Way

__all__ = ["judge_pairs"]

_TWO = 2
_MOST_WORDS = 8
_NO_FLOOR = "no floor is known: the hardware profile has no NIC with RDMA; set validation_rdma_pairs_gbps"


def judge_pairs(
    found: dict[Way, Measured], nodes: list[str], rails: int, floor: float | None, source: str
) -> dict[str, Any]:
    """Return verdict, reason, findings, source, blamed and rdma_pairs (the figures of the report).

    Args:
        found: as output.read_pairs gives it.
        nodes: those that took part.
        rails: how many each node has, at least.
        floor: Gb/s of each rail, None where not known.
        source: where the floor comes from.
    """
    found = {way: item for way, item in found.items() if {way.client, way.server} <= set(nodes)}
    gaps = _gaps(found, nodes, rails)
    slow = {way: item["gbps"] for way, item in found.items() if floor and item["gbps"] and item["gbps"] < floor}
    words = [
        f"{way.rail}: {way.client} to {way.server} {gbps:.4g} Gb/s, floor {floor:.4g}" for way, gbps in slow.items()
    ]
    blamed = _blamed(found, slow, floor or 0.0)
    good = [item["gbps"] for item in found.values() if item["gbps"] is not None]
    said = f"{len(good)} ways, {min(good):.4g} to {max(good):.4g} Gb/s" if good else "nothing was measured"
    if slow:
        verdict, reason = FAIL, next((f"{node}: {why}" for node, why in blamed.items()), words[0])
    elif gaps or floor is None:
        verdict, reason = INCONCLUSIVE, gaps[0] if gaps else f"{said}; {_NO_FLOOR}"
    else:
        verdict, reason = PASS, said
    rest = [line for line in [*words, *gaps] if line != reason]
    return {
        "verdict": verdict,
        "reason": reason,
        "findings": rest[:_MOST_WORDS],
        "source": source or None,
        "blamed": [{"node": node, "reason": why} for node, why in blamed.items()],
        "program": "ib_write_bw of perftest",
        "rdma_pairs": {
            "gbps_floor": floor,
            "rows": [
                {
                    "rail": way.rail,
                    "client": way.client,
                    "server": way.server,
                    "gbps": item["gbps"],
                    "said": item["said"],
                }
                for way, item in sorted(found.items())
            ],
        },
    }


def _gaps(found: dict[Way, Measured], nodes: list[str], rails: int) -> list[str]:
    """Return what was not measured."""
    if len(nodes) < _TWO:
        return ["a pair has two nodes"]
    gaps = [
        f"{way.rail}: {way.client} to {way.server}: {item['said']}"
        for way, item in found.items()
        if item["gbps"] is None
    ]
    known = {way.rail for way in found}
    if len(known) < rails:
        gaps.append(f"{len(known)} rail(s) told of themselves, the hardware has {rails}")
    for rail in sorted(known):
        for words, place in (("sent nothing", 1), ("received nothing", 2)):
            seen = {way[place] for way in found if way.rail == rail}
            gaps += [f"{rail}: {node} {words}" for node in nodes if node not in seen]
    return gaps


def _blamed(found: dict[Way, Measured], slow: dict[Way, float], floor: float) -> dict[str, str]:
    """Return the faulty nodes, with the rail."""
    blamed: dict[str, str] = {}
    for place, words in ((1, "sends"), (2, "receives")):
        for rail, node in dict.fromkeys((way.rail, way[place]) for way in slow):
            mine = [way for way in found if way.rail == rail and way[place] == node]
            others = {way[3 - place] for way in mine}
            if len(others) < _TWO or not all(way in slow for way in mine):
                continue
            well = {way[3 - place] for way, item in found.items() if _well(way, rail, node, item["gbps"], floor)}
            if others <= well:
                most = max(slow[way] for way in mine)
                blamed.setdefault(
                    node, f"{rail}: {words} at most {most:.4g} Gb/s with {len(others)} nodes, floor {floor:.4g}"
                )
    return blamed


def _well(way: Way, rail: str, but: str, gbps: float | None, floor: float) -> bool:
    """Return whether a way over a rail that does not touch a node is fast enough."""
    return way.rail == rail and but not in way[1:] and gbps is not None and gbps >= floor
