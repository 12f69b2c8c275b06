# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""Says whose locks are not honoured: each node holds one lock that the next node in a ring must not get."""

from __future__ import annotations

from typing import Any

__all__ = ["lock_faults"]

_ENOUGH = 2


def lock_faults(said: dict[str, dict[str, Any]], groups: dict[str, int]) -> dict[str, Any]:
    """Return what the locks show.

    A node whose locks mean nothing to others fails at both of its places in the ring, as the one that holds and as the
    one that tries; its two neighbours fail at one place each.

    Args:
        said: for each node its entry of read_storage.
        groups: node to the tree that it sees; nodes of different trees have no lock in common.

    Returns:
        ``faults`` and ``gaps`` (lists of node and words), and ``common`` (words about what cannot be laid to a node).
    """
    names = {item["rank"]: node for node, item in said.items()}
    answer: dict[str, Any] = {"faults": [], "gaps": [], "common": []}
    granted = []
    for node, item in said.items():
        lock = item["lock"]
        holder = names.get(lock["peer"], "") if lock else ""
        if not lock or lock["result"] == "refused" or (holder and groups[holder] != groups[node]):
            continue
        if lock["result"] == "error":
            answer["faults"].append((node, f"cannot lock: {lock['error'] or 'it did not say why'}"))
        elif not holder:
            continue
        elif lock["result"] == "granted":
            granted.append((holder, node))
        elif lock["result"] == "never":
            answer["faults"].append((node, f"did not get the lock that {holder} had released"))
        elif lock["result"] == "no-turn" and said[holder]["lock"] and said[holder]["lock"]["result"] == "error":
            continue
        else:
            answer["gaps"].append((node, f"could not try the lock of {holder}: {lock['result']}"))
    _lay(answer, said, granted)
    return answer


def _lay(answer: dict[str, Any], said: dict[str, dict[str, Any]], granted: list[tuple[str, str]]) -> None:
    """Enter whose fault it is that locks were granted that another node held."""
    places: dict[str, int] = {}
    for pair in granted:
        for node in pair:
            places[node] = places.get(node, 0) + 1
    guilty = {node for node in places if said[node]["local_locks"]}
    twice = {node for node, count in places.items() if count >= _ENOUGH}
    if not guilty and len(twice) < len(said):
        guilty = {node for node in twice if all(places[other] < _ENOUGH for other in _others(node, granted))}
    for node in sorted(guilty):
        local = ": its mount keeps locks to itself" if said[node]["local_locks"] else ""
        with_whom = ", ".join(sorted(_others(node, granted)))
        answer["faults"].append((node, f"its locks are not honoured between it and {with_whom}{local}"))
    answer["common"] += [
        f"locks are not honoured: {tried} got one while {held} held it"
        for held, tried in granted
        if not {held, tried} & guilty
    ]


def _others(node: str, pairs: list[tuple[str, str]]) -> set[str]:
    return {other for pair in pairs if node in pair for other in pair} - {node}
