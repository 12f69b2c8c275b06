# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""Says whether each GPU multiplies as fast as its kind does, and gives the same results, bit by bit.

Three things are wrong whatever the speed: a product that is not what the same product was before, a copy that is not
what it is of, and a result that differs from that of most GPUs of the same kind with the same library. Of those the
most frequent result is taken for right. Where two results are as frequent, one is wrong and nobody can say which.

A straggler is a GPU below the median of its like by more than a share; four at least make a median that one of them
does not decide.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from ...common.hostlist import fold_hosts
from ..judge import FAIL, INCONCLUSIVE, PASS

__all__ = ["Asked", "Floor", "judge_gemm"]

_FEWEST = 4
_MOST_WORDS = 5


@dataclass(frozen=True)
class Floor:
    """What a GPU of a node must reach: TFLOP/s and GB/s, None where that is not known."""

    tflops: float | None = None
    memory_gbs: float | None = None


@dataclass(frozen=True)
class Asked:
    """What the ranks are judged by.

    Attributes:
        per_node: ranks on each node.
        what: gpu or cpu; what they must have used.
        floors: of each node.
        spread: share of 1 that one may be below the median of its like.
        source: where the floors come from.
    """

    per_node: int
    what: str
    floors: dict[str, Floor] = field(default_factory=dict)
    spread: float = 1.0
    source: str = ""


def judge_gemm(ranks: list[dict[str, Any]], said: dict[str, str], nodes: list[str], asked: Asked) -> dict[str, Any]:
    """Return verdict, reason, findings, source, blamed and gemm (the figures of the report).

    Args:
        ranks: as output.read_gemm gives them.
        said: why nodes measured nothing.
        nodes: those that took part.
        asked: what they are judged by.
    """
    gaps = _gaps(ranks, said, nodes, asked)
    mine = [rank for rank in ranks if rank["node"] in nodes and rank["what"] == asked.what]
    wrong, unclear = _wrong(mine)
    slow = _slow(mine, asked)
    blamed: dict[str, str] = {}
    for rank, words in wrong + slow:
        blamed.setdefault(rank["node"], f"{_name(rank)}: {words}")
    faults = [f"{rank['node']} {_name(rank)}: {words}" for rank, words in wrong + slow]
    doubt = _doubt(mine, asked)
    if faults or unclear:
        verdict, reason = FAIL, faults[0] if wrong or not unclear else unclear[0]
    elif gaps or doubt:
        verdict, reason = INCONCLUSIVE, gaps[0] if gaps else f"{_reached(mine)}; {doubt}"
    else:
        verdict, reason = PASS, _reached(mine)
    every = [*faults, *unclear, *gaps]
    findings = [words for words in every if words != reason][:_MOST_WORDS]
    more = len([words for words in every if words != reason]) - len(findings)
    return {
        "verdict": verdict,
        "reason": reason,
        "findings": findings + ([f"{more} more such lines are in the output"] if more > 0 else []),
        "source": asked.source or None,
        "blamed": [{"node": node, "reason": words} for node, words in blamed.items()],
        "program": "busbar_gemm",
        "version": mine[0]["library"] if mine else None,
        "gemm": _figures(mine, asked, {id(rank) for rank, _words in wrong}),
    }


def _name(rank: dict[str, Any]) -> str:
    return f"{'GPU' if rank['what'] == 'gpu' else 'CPU rank'} {rank['device']}"


def _gaps(ranks: list[dict[str, Any]], said: dict[str, str], nodes: list[str], asked: Asked) -> list[str]:
    """Return whose figures lack."""
    found = Counter(rank["node"] for rank in ranks if rank["what"] == asked.what)
    gaps = []
    for node in nodes:
        if found[node] < asked.per_node:
            remedy = " (validation_gemm_image, or the nodes' packages)" if node in said else ""
            words = said.get(node) or f"{found[node]} of {asked.per_node} rank(s) told what they measured"
            gaps.append(f"{node}: {words}{remedy}")
    return gaps


def _like(ranks: list[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """Return the ranks in groups that must give the same results."""
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = defaultdict(list)
    for rank in ranks:
        groups[tuple(rank[key] for key in ("kind", "library", "precision", "size"))].append(rank)
    return list(groups.values())


def _wrong(ranks: list[dict[str, Any]]) -> tuple[list[tuple[dict[str, Any], str]], list[str]]:
    """Return who gave wrong results, and of whom it is not clear who did."""
    wrong: list[tuple[dict[str, Any], str]] = []
    unclear = []
    for rank in ranks:
        if rank["changed"]:
            batches = f"{rank['changed']} of {rank['batches']}"
            wrong.append((rank, f"the same product came out differently in {batches} batches: silent data corruption"))
        elif rank["copies_changed"]:
            wrong.append((rank, f"{rank['copies_changed']} copies in memory are not what they are of"))
    known = {id(rank) for rank, _words in wrong}
    for group in _like([rank for rank in ranks if id(rank) not in known]):
        counted = Counter(rank["digest"] for rank in group).most_common()
        if len(counted) == 1:
            continue
        (right, most), (_other, next_most) = counted[:2]
        if most > next_most:
            words = f"its result differs from that of {most} like it: silent data corruption"
            wrong += [(rank, words) for rank in group if rank["digest"] != right]
            continue
        who = fold_hosts(list(dict.fromkeys(rank["node"] for rank in group)))
        unclear.append(
            f"{who}: like devices gave {len(counted)} results, no one of which most agree on: test more of them"
        )
    return wrong, unclear


def _slow(ranks: list[dict[str, Any]], asked: Asked) -> list[tuple[dict[str, Any], str]]:
    """Return who is below a floor, or far below its like."""
    found: list[tuple[dict[str, Any], str]] = []
    for group in _like(ranks):
        for key, unit in (("tflops", "TFLOP/s"), ("memory_gbs", "GB/s of memory")):
            middle = median(rank[key] for rank in group)
            least = middle * (1 - asked.spread) if len(group) >= _FEWEST else 0.0
            for rank in group:
                floor = getattr(asked.floors.get(rank["node"], Floor()), key)
                said = f"{rank[key]:.4g} {unit}"
                if floor is not None and rank[key] < floor:
                    found.append((rank, f"{said}, floor {floor:.4g}"))
                elif rank[key] < least:
                    found.append(
                        (rank, f"{said}, {1 - rank[key] / middle:.0%} below the median of {len(group)} like it")
                    )
    return found


def _doubt(ranks: list[dict[str, Any]], asked: Asked) -> str:
    """Return why speeds that miss no floor prove nothing; an empty text when they do."""
    nodes = {rank["node"] for rank in ranks}
    if any(asked.floors.get(node, Floor()).tflops is None for node in nodes):
        return "no floor is known: set gemm in the hardware profile, or validation_gemm_tflops"
    if any(asked.floors.get(node, Floor()).memory_gbs is None for node in nodes):
        return "no floor of the memory is known: set gemm in the hardware profile, or validation_gemm_memory_gbs"
    return ""


def _reached(ranks: list[dict[str, Any]]) -> str:
    if not ranks:
        return "nothing was measured"
    speeds, copies = [rank["tflops"] for rank in ranks], [rank["memory_gbs"] for rank in ranks]
    count = f"{len(ranks)} {'GPU(s)' if ranks[0]['what'] == 'gpu' else 'CPU rank(s)'}"
    speed = f"{min(speeds):.4g} to {max(speeds):.4g} TFLOP/s in {ranks[0]['precision']}"
    return f"{count}: {speed}, memory {min(copies):.4g} to {max(copies):.4g} GB/s, like results alike"


def _figures(ranks: list[dict[str, Any]], asked: Asked, wrong: set[int]) -> dict[str, Any]:
    """Return what the report keeps; the shares are of the median of like devices."""
    middles = {id(rank): median(other["tflops"] for other in group) for group in _like(ranks) for rank in group}
    known = [asked.floors.get(rank["node"], Floor()) for rank in ranks]
    return {
        "precision": ranks[0]["precision"] if ranks else "",
        "size": ranks[0]["size"] if ranks else None,
        "tflops_floor": min((floor.tflops for floor in known if floor.tflops is not None), default=None),
        "memory_floor_gbs": min((floor.memory_gbs for floor in known if floor.memory_gbs is not None), default=None),
        "spread_limit": asked.spread,
        "rows": [
            {
                **{
                    key: rank[key]
                    for key in ("node", "device", "uuid", "kind", "tflops", "lowest_tflops", "memory_gbs")
                },
                "median_share": rank["tflops"] / middles[id(rank)] if middles[id(rank)] else None,
                "wrong": id(rank) in wrong,
            }
            for rank in ranks
        ],
    }
