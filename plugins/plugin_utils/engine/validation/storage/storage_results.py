# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""Collect the results of the storage stage, and format them as messages and report values."""

from __future__ import annotations

from dataclasses import dataclass, field
from statistics import median
from typing import Any

from ...common.hostlist import fold_hosts
from ..nccl_judge import FAIL, INCONCLUSIVE, PASS

WAYS = ("write", "read")
# A node below this share of the median is reported even without a floor; noise does not cause such a difference.
_FAR_BELOW = 0.5
_FEWEST_PEERS = 3
_ENOUGH = 2
_MOST_FINDINGS = 40


@dataclass(frozen=True)
class Limits:
    """The limits of the verdict.

    Attributes:
        path: path of the shared tree.
        floors: node to the minimum bytes/s by direction (write, read) while all nodes run; None if unknown.
        source: source of the floors.
        speed: whether the speed is measured.
    """

    path: str
    floors: dict[str, dict[str, float | None]]
    source: str = ""
    speed: bool = True


@dataclass
class Found:
    """Faults and missing results (each node to messages), and faults that do not belong to a single node."""

    faults: dict[str, list[str]] = field(default_factory=dict)
    gaps: dict[str, list[str]] = field(default_factory=dict)
    common: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)

    def fault(self, node: str, words: str) -> None:
        """Record a fault on a node."""
        self.faults.setdefault(node, []).append(words)

    def gap(self, node: str, words: str) -> None:
        """Record a missing result of a node."""
        self.gaps.setdefault(node, []).append(words)


def rate_words(rate: float | None) -> str:
    """Return a readable rate from bytes/s."""
    if rate is None:
        return "unknown"
    return f"{rate / 1e9:.3g} GB/s" if rate >= 1e9 else f"{rate / 1e6:.3g} MB/s"  # noqa: PLR2004 - one gigabyte


def size_words(count: int | None) -> str:
    """Return a readable size from bytes."""
    if count is None:
        return "unknown"
    return f"{count / 1e9:.3g} GB" if count >= 1e9 else f"{count / 1e6:.3g} MB"  # noqa: PLR2004 - one gigabyte


def mount_words(item: dict[str, Any]) -> str:
    """Return a description of a node's mount."""
    if item["mount"] == "/":
        return "nothing is mounted there"
    return f"{item['type'] or 'unknown'} {item['source']} on {item['mount'] or '?'}"


def blamed_nodes(found: Found, nodes: list[str]) -> list[dict[str, str]]:
    """Return the faulty nodes; empty if all nodes have the same fault."""
    if len(nodes) >= _ENOUGH and set(found.faults) >= set(nodes):
        return []
    return [{"node": node, "reason": "; ".join(reasons)} for node, reasons in sorted(found.faults.items())]


def words_of(
    found: Found, blamed: list[dict[str, str]], nodes: list[str], answers: dict[str, dict[str, Any]], limits: Limits
) -> tuple[str, list[str]]:
    """Return the reason in one line, and all findings."""
    bad = [f"{who}: {words}" for who, words in _folded(found.faults)]
    open_ones = [f"{who}: {words}" for who, words in _folded(found.gaps)]
    lines = [*found.common, *bad, *open_ones, *found.unknown]
    if not lines:
        return _pass_reason(nodes, answers, limits), []
    first = lines[0]
    if found.faults and not blamed and not found.common:
        first = f"all nodes, so the file system or its server is faulty: {first}"
    more = f", and {len(lines) - 1} more" if len(lines) > 1 else ""
    kept = lines[:_MOST_FINDINGS]
    return first + more, kept + ([f"and {len(lines) - len(kept)} more"] if len(lines) > len(kept) else [])


def _folded(reasons: dict[str, list[str]]) -> list[tuple[str, str]]:
    """Return one entry for each set of nodes with the same reasons."""
    alike: dict[str, list[str]] = {}
    for node, words in reasons.items():
        alike.setdefault("; ".join(words), []).append(node)
    return [(fold_hosts(sorted(nodes)), words) for words, nodes in alike.items()]


def _rates(answers: dict[str, dict[str, Any]], way: str) -> dict[str, int]:
    speeds = {node: item["speed"][way] for node, item in answers.items()}
    return {node: speed["rate"] for node, speed in speeds.items() if speed and speed["rate"]}


def _pass_reason(nodes: list[str], answers: dict[str, dict[str, Any]], limits: Limits) -> str:
    shared = f"{len(nodes)} nodes share {limits.path}, with working locks and atomic renames"
    parts = []
    for way in WAYS if limits.speed else ():
        rates = _rates(answers, way)
        slowest = min(rates, key=lambda node: rates[node])
        parts.append(f"slowest {way} {rate_words(rates[slowest])} ({slowest})")
    return "; ".join([shared, *parts])


def slow_peers(answers: dict[str, dict[str, Any]]) -> list[str]:
    """Return a line for each node that is far slower than the others."""
    findings = []
    for way in WAYS:
        rates = _rates(answers, way)
        middle = median(rates.values()) if len(rates) >= _FEWEST_PEERS else 0
        findings += [
            f"{node}: {way}s {rate_words(rate)}, less than half of its peers ({rate_words(middle)})"
            for node, rate in sorted(rates.items())
            if rate < _FAR_BELOW * middle
        ]
    return findings[:_MOST_FINDINGS]


def figures(found: Found, nodes: list[str], answers: dict[str, dict[str, Any]], limits: Limits) -> dict[str, Any]:
    """Return the storage stage's keys of the report entry; rates and floors in bytes/s."""
    rows = []
    for node in nodes:
        item = answers.get(node)
        speed = item["speed"] if item else {}
        row: dict[str, Any] = {"node": node, "filesystem": mount_words(item) if item and item["mount"] else ""}
        row["verdict"] = FAIL if node in found.faults else INCONCLUSIVE if node in found.gaps else PASS
        row["reason"] = "; ".join(found.faults.get(node, []) + found.gaps.get(node, []))
        for way in WAYS:
            row[way] = (speed.get(way) or {}).get("rate")
            row[f"{way}_floor"] = limits.floors.get(node, {}).get(way)
        rows.append(row)
    modes = {(item["speed"][way] or {}).get("mode") for item in answers.values() for way in WAYS} - {None, ""}
    medians = {way: list(_rates(answers, way).values()) for way in WAYS}
    return {
        "path": limits.path,
        "mode": ", ".join(sorted(str(mode) for mode in modes)),
        **{f"{way}_median": float(median(values)) if values else None for way, values in medians.items()},
        "nodes": rows,
    }
