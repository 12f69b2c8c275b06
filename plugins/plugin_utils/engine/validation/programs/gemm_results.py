# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""Parse and compare the results of busbar_gemm.py, which the gemm and soak stages run.

A result is wrong if a repeated product differs, a copy differs from its source, or the product differs from that of
most devices of the same kind with the same library. If two products are equally frequent, the faulty node is unknown.

A straggler is a device that is below the median of its kind by more than a given share. The median requires at least
four devices.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from statistics import median
from typing import Any, NamedTuple

from ...common.hostlist import fold_hosts
from ...common.printable import json_object, plain_text
from ..result_presentation import finite
from .stage_verdict import Fault

_MARK, _MESSAGE = "busbar-gemm ", "busbar_gemm: "
_TEXTS = ("node", "what", "uuid", "kind", "library", "precision", "digest")
_WHOLE = ("rank", "device", "size", "batches", "changed", "copies_changed")
_SPEEDS = ("tflops", "lowest_tflops", "memory_gbs")
_FEWEST = 4
Rank = dict[str, Any]


class Floor(NamedTuple):
    """The floors of a device in TFLOP/s and GB/s; None if unknown."""

    tflops: float | None = None
    memory_gbs: float | None = None


def known_floor(profile: dict[str, Any]) -> Floor:
    """Return the floors of a hardware profile: shares of the peaks of a GPU's tensor cores and memory."""
    declared = profile.get("gemm") or {}
    peak = declared.get("peak_tflops") or (profile.get("training") or {}).get("peak_tflops")
    share, memory, memory_share = (declared.get(key) for key in ("share_floor", "memory_gbs", "memory_share_floor"))
    return Floor(share * peak if share and peak else None, memory * memory_share if memory and memory_share else None)


def read_products(text: str, nodes: list[str], what: str) -> tuple[list[Rank], dict[str, str]]:
    """Return the measurements of each rank, and the error of each node without measurements; never raises.

    Args:
        text: the output of the job.
        nodes: the nodes that took part.
        what: gpu or cpu; other ranks are skipped.

    Returns:
        For each rank the keys _TEXTS, _WHOLE (integers) and _SPEEDS; incomplete lines are skipped.
    """
    ranks: list[Rank] = []
    messages: dict[str, str] = {}
    for line in text.splitlines():
        if line.startswith(_MARK):
            ranks += _rank(json_object(line[len(_MARK) :]))
        elif line.startswith(_MESSAGE):
            node, _colon, words = line[len(_MESSAGE) :].partition(": ")
            messages.setdefault(node, plain_text(words))
    return [rank for rank in ranks if rank["node"] in nodes and rank["what"] == what], messages


def _rank(found: dict[str, Any]) -> list[Rank]:
    numbers = {key: finite(found.get(key)) for key in (*_WHOLE, *_SPEEDS)}
    if not all(isinstance(found.get(key), str) for key in _TEXTS) or None in numbers.values():
        return []
    whole = {key: int(numbers[key] or 0) for key in _WHOLE}
    rank = {**{key: plain_text(found[key]) for key in _TEXTS}, **numbers, **whole}
    return [rank] if rank["digest"] and rank["node"] else []


def device_name(what: str, device: int) -> str:
    """Return the name of a device in messages."""
    return f"{'GPU' if what == 'gpu' else 'CPU rank'} {device}"


def gaps_of(ranks: list[Rank], messages: dict[str, str], nodes: list[str], per_node: int) -> dict[str, str]:
    """Return a message for each node with missing ranks."""
    found = Counter(rank["node"] for rank in ranks)
    words = "{} of {} rank(s) reported results"
    return {node: messages.get(node) or words.format(found[node], per_node) for node in nodes if found[node] < per_node}


def reached(ranks: list[Rank]) -> str:
    """Return the range of the speeds as text."""
    if not ranks:
        return "nothing was measured"
    speeds, copies = [rank["tflops"] for rank in ranks], [rank["memory_gbs"] for rank in ranks]
    count = f"{len(ranks)} {'GPU(s)' if ranks[0]['what'] == 'gpu' else 'CPU rank(s)'}"
    speed = f"{min(speeds):.4g} to {max(speeds):.4g} TFLOP/s in {ranks[0]['precision']}"
    memory = f"memory {min(copies):.4g} to {max(copies):.4g} GB/s"
    return f"{count}: {speed}, {memory}, the same results on identical devices"


def _like_devices(ranks: list[Rank]) -> list[list[Rank]]:
    """Return the ranks in groups that must have equal results."""
    groups: dict[tuple[Any, ...], list[Rank]] = defaultdict(list)
    for rank in ranks:
        groups[tuple(rank[key] for key in ("kind", "library", "precision", "size"))].append(rank)
    return list(groups.values())


def compared(ranks: list[Rank], floors: dict[str, Floor], spread: float) -> list[Fault]:
    """Return the faults, wrong results first, and set wrong and median_share (of identical devices) of each rank.

    Args:
        ranks: ranks of all devices.
        floors: floors of each node.
        spread: tolerated deviation below the median of a kind of device, as a fraction.
    """
    faults = []
    for group in _like_devices(ranks):
        middle = median(rank["tflops"] for rank in group)
        for rank in group:
            rank |= {"wrong": False, "median_share": rank["tflops"] / middle if middle else None}
    for rank in ranks:
        if rank["changed"]:
            batches = f"{rank['changed']} of {rank['batches']}"
            words = f"the same product had different results in {batches} batches: silent data corruption"
            faults.append(_wrong(rank, words))
        elif rank["copies_changed"]:
            faults.append(_wrong(rank, f"{rank['copies_changed']} copies in memory differ from their source"))
    unclear = []
    for group in _like_devices([rank for rank in ranks if not rank["wrong"]]):
        counted = Counter(rank["digest"] for rank in group).most_common()
        if len(counted) > 1 and counted[0][1] > counted[1][1]:
            words = f"its result differs from that of {counted[0][1]} identical devices: silent data corruption"
            faults += [_wrong(rank, words) for rank in group if rank["digest"] != counted[0][0]]
        elif len(counted) > 1:
            who = fold_hosts(list(dict.fromkeys(rank["node"] for rank in group)))
            words = f"{len(counted)} different results of identical devices, without a majority: test more devices"
            unclear.append(Fault("", f"{who}: {words}"))
    return [*faults, *unclear, *_slow(ranks, floors, spread)]


def _fault(rank: Rank, words: str) -> Fault:
    name = device_name(rank["what"], rank["device"])
    return Fault(rank["node"], f"{name}: {words}", f"{rank['node']} {name}: {words}")


def _wrong(rank: Rank, words: str) -> Fault:
    rank["wrong"] = True
    return _fault(rank, words)


def _slow(ranks: list[Rank], floors: dict[str, Floor], spread: float) -> list[Fault]:
    """Return the devices below a floor, or far below the median of their kind."""
    found: list[Fault] = []
    for group in _like_devices(ranks):
        for key, unit in (("tflops", "TFLOP/s"), ("memory_gbs", "GB/s of memory")):
            middle = median(rank[key] for rank in group)
            least = middle * (1 - spread) if len(group) >= _FEWEST else 0.0
            for rank in group:
                floor = getattr(floors.get(rank["node"], Floor()), key)
                messages = f"{rank[key]:.4g} {unit}"
                if floor is not None and rank[key] < floor:
                    found.append(_fault(rank, f"{messages}, floor {floor:.4g}"))
                elif rank[key] < least:
                    share = f"{1 - rank[key] / middle:.0%} below the median of {len(group)} identical devices"
                    found.append(_fault(rank, f"{messages}, {share}"))
    return found
