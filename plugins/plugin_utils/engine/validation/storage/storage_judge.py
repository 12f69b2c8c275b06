# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""Judge whether nodes share a directory tree correctly, and whether each node is fast enough.

Faults take precedence over missing results, and these over speed. If all nodes have the same fault, the tree and not a
node is at fault.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from ...common.hostlist import fold_hosts
from ...common.option_names_in_messages import option
from ..nccl_judge import FAIL, INCONCLUSIVE, PASS
from .storage_results import (
    WAYS,
    Found,
    Limits,
    blamed_nodes,
    figures,
    mount_words,
    rate_words,
    size_words,
    slow_peers,
    words_of,
)

_ENOUGH = 2
_MOST_FINDINGS = 40
# Types of file systems that nodes cannot share.
_PRIVATE = frozenset({"tmpfs", "ramfs", "overlay"})
_RESULTS = {
    "missing": "does not see the file of {peer}",
    "stale": "sees an old version of the file of {peer}",
    "wrong": "reads different bytes than {peer} wrote",
    "handle": "cannot read the file of {peer}: stale file handle",
}


def judge_storage(data: list[dict[str, Any]], nodes: list[str], limits: Limits) -> dict[str, Any]:
    """Return the verdict, reason, findings, blamed (node and reason of each) and storage (values for the report).

    Args:
        data: the result of read_storage.
        nodes: names of the nodes that must take part.
        limits: limits of the verdict.
    """
    answers = {item["node"]: item for item in data if item["node"] in nodes}
    found = Found()
    for node in nodes:
        _own(found, node, answers.get(node))
    groups = _groups(found, answers, limits.path)
    _peer_file_faults(found, answers, groups)
    _locks(found, answers, groups)
    if len(nodes) < _ENOUGH:
        found.unknown.append(f"the test requires at least two nodes: set {option('partners')}")
    if limits.speed:
        _speeds(found, answers, limits)
    _unexplained(found, nodes, answers, limits)
    blamed = blamed_nodes(found, nodes)
    verdict = FAIL if found.faults or found.common else INCONCLUSIVE if found.gaps or found.unknown else PASS
    reason, findings = words_of(found, blamed, nodes, answers, limits)
    return {
        "verdict": verdict,
        "reason": reason,
        "findings": findings + (slow_peers(answers) if limits.speed else []),
        "source": limits.source or None,
        "blamed": blamed,
        "storage": figures(found, nodes, answers, limits),
    }


def _own(found: Found, node: str, item: dict[str, Any] | None) -> None:
    """Judge the results of a node that do not depend on other nodes."""
    if item is None or item["write_error"] is None:
        found.gap(node, "gave no result" if item is None else "did not start writing")
    elif item["write_error"] == "no room":
        found.gap(node, f"no space: {size_words(item['free'])} free, {size_words(item['needed'])} needed by all nodes")
    elif item["write_error"]:
        found.fault(node, f"cannot write: {item['write_error']}{_ownership_remedy(item['write_error'])}")
    elif item["back"] not in {None, "ok"}:
        found.fault(node, f"reads back different data: {item['back']}")


def _ownership_remedy(error: str) -> str:
    denied = "denied" in error or "not permitted" in error
    return f" (use a directory that {option('user')} owns)" if denied else ""


def _groups(found: Found, answers: dict[str, dict[str, Any]], path: str) -> dict[str, int]:
    """Return the group of each node, one group per tree, and record the nodes with a different tree than most."""
    tree = {
        node: item["tree"]
        for node, item in answers.items()
        if item["tree"] is not None and not item["write_error"] and node not in found.gaps
    }
    sizes = Counter(tree.values()).most_common()
    if len(sizes) > 1:
        most = sizes[0][1]
        largest = {number for number, size in sizes if size == most}
        odd = {node for node, number in tree.items() if number not in largest}
        if len(largest) > 1:
            odd |= _private(answers, tree, largest)
        for node in sorted(odd):
            item = answers[node]
            found.fault(node, f"sees a different tree at {path} than the others: {mount_words(item)}")
        left = sorted(node for node in tree if node not in odd)
        if len({tree[node] for node in left}) > 1:
            which = ", ".join(f"{node} has {mount_words(answers[node])}" for node in left[:_MOST_FINDINGS])
            found.common.append(f"{fold_hosts(left)} do not see the same tree at {path}: {which}")
    return tree


def _private(answers: dict[str, dict[str, Any]], tree: dict[str, int], largest: set[int]) -> set[str]:
    """Return the nodes that mount a local file system, if without them one of the largest groups is left."""
    suspects = {
        node
        for node, number in tree.items()
        if number in largest and (answers[node]["type"] in _PRIVATE or answers[node]["mount"] == "/")
    }
    left = {number for node, number in tree.items() if number in largest and node not in suspects}
    return suspects if len(left) == 1 else set()


def _peer_file_faults(found: Found, answers: dict[str, dict[str, Any]], groups: dict[str, int]) -> None:
    """Judge the reports of nodes on one tree about each other's files."""
    names = {item["rank"]: node for node, item in answers.items()}
    complaints: dict[tuple[str, str], str] = {}
    for node, item in answers.items():
        for peer, words in [*_bad_sights(item), *_bad_renames(item)]:
            other = names.get(peer, "")
            if node in groups and groups[node] == groups.get(other):
                complaints.setdefault((node, other), words.format(peer=other))
    readers: dict[str, set[str]] = {}
    for reader, writer in complaints:
        readers.setdefault(writer, set()).add(reader)
    busy = Counter(reader for reader, _writer in complaints)
    for (reader, writer), words in complaints.items():
        alike = {one for one in readers[writer] if busy[one] == 1}
        if len(alike) >= _ENOUGH:
            if reader == min(alike):
                found.fault(writer, f"other nodes read its files incorrectly: {fold_hosts(sorted(readers[writer]))}")
        else:
            found.fault(reader, words)


def _bad_sights(item: dict[str, Any]) -> list[tuple[int, str]]:
    return [
        (sight["peer"], _RESULTS.get(sight["result"], f"cannot read the file of {{peer}}: {_safe(sight['result'])}"))
        for sight in item["sees"]
        if sight["result"] != "ok"
    ]


def _safe(text: str) -> str:
    return text.replace("{", "(").replace("}", ")")


def _bad_renames(item: dict[str, Any]) -> list[tuple[int, str]]:
    rename = item["rename"]
    counts = {
        "missing": "missing",
        "wrong": "incomplete",
        "back": "in an older version than before",
        "other": "unreadable",
    }
    bad = [f"{words} {rename[key]} times" for key, words in counts.items() if rename and rename[key]]
    if not bad:
        return []
    return [(rename["peer"], f"read a file {rename['reads']} times while {{peer}} replaced it: {', '.join(bad)}")]


def _speeds(found: Found, answers: dict[str, dict[str, Any]], limits: Limits) -> None:
    """Judge the rates of the measured nodes."""
    lacking: set[str] = set()
    broken = found.faults.keys() | found.gaps.keys()
    for node, item in answers.items():
        for way in WAYS:
            speed, floor = item["speed"][way], limits.floors.get(node, {}).get(way)
            if floor is None:
                lacking.add(way)
            if speed is None or node in broken:
                continue
            if speed["rate"] is None:
                why = f" ({size_words(item['free'])} free, {size_words(item['needed'])} needed by all nodes)"
                found.gap(node, f"{way} not measured: {speed['error']}{why if speed['error'] == 'no room' else ''}")
            elif floor is not None and speed["rate"] < floor:
                found.fault(node, f"{way}s {rate_words(speed['rate'])}, floor {rate_words(floor)}")
    if lacking:
        found.unknown.append(
            f"no floor is known for the speed of {' and '.join(way for way in WAYS if way in lacking)}: set storage "
            f"in the hardware profile, or {option('storage_read_floor')} and {option('storage_write_floor')}"
        )


def _unexplained(found: Found, nodes: list[str], answers: dict[str, dict[str, Any]], limits: Limits) -> None:
    """Record the missing results of each node, unless a known fault explains them."""
    for node in nodes:
        if node in found.faults or node in found.gaps:
            continue
        item = answers[node]
        wanted = {"read back": item["back"], "tree": item["tree"]}
        if len(nodes) >= _ENOUGH:
            wanted |= {"rename": item["rename"], "lock": item["lock"]}
            wanted |= {"the files of other nodes": {sight["version"] for sight in item["sees"]} >= {1, 2} or None}
        if limits.speed:
            wanted |= {f"speed of {way}": item["speed"][way] for way in WAYS}
        missing = [what for what, value in wanted.items() if value is None]
        if item["problems"] or missing:
            lack = [f"no result for {', '.join(missing)}"] if missing else []
            found.gap(node, "; ".join([*item["problems"][:1], *lack]))


def _locks(found: Found, everyone: dict[str, dict[str, Any]], groups: dict[str, int]) -> None:
    """Record the faults that the lock tests between nodes on one tree show.

    If the locks of a node have no effect on other nodes, it fails both of its tests in the ring, as holder of a lock
    and as competitor, and each of its two neighbours fails one test.
    """
    answers = {node: item for node, item in everyone.items() if node in groups and node not in found.faults}
    names = {item["rank"]: node for node, item in answers.items()}
    granted = []
    for node, item in answers.items():
        lock = item["lock"]
        holder = names.get(lock["peer"], "") if lock else ""
        if not lock or lock["result"] == "refused" or (holder and groups[holder] != groups[node]):
            continue
        if lock["result"] == "error":
            found.fault(node, f"cannot lock a file: {lock['error'] or 'unknown error'}")
        elif not holder:
            continue
        elif lock["result"] == "granted":
            granted.append((holder, node))
        elif lock["result"] == "never":
            found.fault(node, f"did not get the lock that {holder} had released")
        elif lock["result"] == "no-turn" and answers[holder]["lock"] and answers[holder]["lock"]["result"] == "error":
            continue
        else:
            found.gap(node, f"could not try the lock of {holder}: {lock['result']}")
    _blame_for_locks(found, answers, granted)


def _blame_for_locks(found: Found, answers: dict[str, dict[str, Any]], granted: list[tuple[str, str]]) -> None:
    """Record the faulty nodes for locks that were granted while another node held them."""
    places = Counter(node for pair in granted for node in pair)
    guilty = {node for node in places if answers[node]["local_locks"]}
    twice = {node for node, count in places.items() if count >= _ENOUGH}
    if not guilty and len(twice) < len(answers):
        guilty = {node for node in twice if all(places[other] < _ENOUGH for other in _others(node, granted))}
    for node in sorted(guilty):
        local = ": remove local_lock or nolock from its mount options" if answers[node]["local_locks"] else ""
        others = ", ".join(sorted(_others(node, granted)))
        found.fault(node, f"file locks have no effect between this node and {others}{local}")
    found.common += [
        f"file locks have no effect: {tried} acquired a lock that {held} held"
        for held, tried in granted
        if not {held, tried} & guilty
    ]


def _others(node: str, pairs: list[tuple[str, str]]) -> set[str]:
    return {other for pair in pairs if node in pair for other in pair} - {node}
