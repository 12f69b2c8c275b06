"""Read the nodes and partitions of a slurm.conf, for programs that only have the Python standard library."""

from __future__ import annotations

import re
from typing import NamedTuple

from .hostlist import expand_hosts, split_outside

__all__ = ["ClusterConf", "NodeConf", "PartitionConf", "count_gres", "read_cluster", "read_minutes"]

_PAIR = re.compile(r'(\w+)\s*=\s*("[^"]*"|\S+)')
_NOTES = re.compile(r"\([^)]*\)")
_COUNT = re.compile(r"(\d+)([kKmM]?)")
_TIME = re.compile(r"(?:(\d+)-)?(\d+)(?::(\d+))?(?::(\d+))?")
_FACTORS = {"": 1, "k": 1024, "m": 1024**2}
_KINDS = ("nodename", "partitionname", "nodeset")


class NodeConf(NamedTuple):
    """A node of a NodeName line; memory in MiB, gres by name ('gpu') and by name and type ('gpu:h100')."""

    sockets: int
    cores: int
    cpus: int
    memory: int
    gres: dict[str, int]


class PartitionConf(NamedTuple):
    """A partition of a PartitionName line; minutes and node counts are None without a limit."""

    nodes: frozenset[str]
    minutes: int | None
    least_nodes: int
    most_nodes: int | None
    allowed: dict[str, frozenset[str]]
    denied: dict[str, frozenset[str]]


class ClusterConf(NamedTuple):
    """The nodes and partitions of a slurm.conf."""

    nodes: dict[str, NodeConf]
    partitions: dict[str, PartitionConf]


def read_cluster(text: str) -> ClusterConf:
    """Return the nodes and partitions of a slurm.conf; unknown lines are ignored."""
    defaults: dict[str, dict[str, str]] = {kind: {} for kind in _KINDS}
    lines: dict[str, dict[str, dict[str, str]]] = {kind: {} for kind in _KINDS}
    for line in text.splitlines():
        pairs = {key.lower(): value.strip('"') for key, value in _PAIR.findall(line.split("#", 1)[0])}
        kind = next(iter(pairs), "")
        if kind not in lines:
            continue
        if pairs[kind].upper() == "DEFAULT":
            defaults[kind].update(pairs)
            continue
        for name in _names(pairs[kind]):
            lines[kind][name] = {**defaults[kind], **lines[kind].get(name, {}), **pairs}
    nodes = {name: _node(pairs) for name, pairs in lines["nodename"].items()}
    sets = {name: _set_members(pairs, lines["nodename"]) for name, pairs in lines["nodeset"].items()}
    partitions = {name: _partition(pairs, nodes, sets) for name, pairs in lines["partitionname"].items()}
    return ClusterConf(nodes, partitions)


def count_gres(text: str) -> dict[str, int]:
    """Return the number of each gres of a node: 'gpu:h100:4,shard:8' gives gpu 4, gpu:h100 4, shard 8."""
    found: dict[str, int] = {}
    for item in split_outside(text, "(", ")"):
        words = _NOTES.sub("", item).split(":")
        number = _COUNT.fullmatch(words[-1]) if len(words) > 1 else None
        if number:
            words.pop()
        count = int(number[1]) * _FACTORS[number[2].lower()] if number else 1
        # 'gpu:h100:no_consume:4' has a flag between type and count.
        names = [word for word in words if word != "no_consume"]
        for name in dict.fromkeys((names[0], ":".join(names[:2]))):
            found[name] = found.get(name, 0) + count
    return found


def read_minutes(text: str) -> int | None:
    """Return a Slurm time in minutes, rounded up ('90', '1:30:00', '2-0', '2-00:30'), or None without a limit."""
    matched = _TIME.fullmatch(text.strip())
    if matched is None:
        return None
    parts = [int(part) for part in matched.groups()[1:] if part is not None]
    if matched[1] is not None:
        hours, minutes, seconds = (*parts, 0, 0)[:3]
        hours += int(matched[1]) * 24
    elif len(parts) == 3:  # noqa: PLR2004 - hours, minutes and seconds
        hours, minutes, seconds = parts
    else:
        hours, minutes, seconds = 0, parts[0], (*parts, 0)[1]
    return hours * 60 + minutes + (seconds > 0)


def _names(text: str) -> list[str]:
    try:
        return expand_hosts(text)
    except ValueError:  # too long or malformed
        return []


def _number(pairs: dict[str, str], key: str, otherwise: int) -> int:
    matched = re.match(r"\d+", pairs.get(key, ""))
    return int(matched[0]) if matched else otherwise


def _node(pairs: dict[str, str]) -> NodeConf:
    cores, threads = _number(pairs, "corespersocket", 1), _number(pairs, "threadspercore", 1)
    boards = _number(pairs, "boards", 1)
    sockets = _number(pairs, "sockets", boards * _number(pairs, "socketsperboard", 0))
    cpus = _number(pairs, "cpus", _number(pairs, "procs", max(sockets, 1) * cores * threads))
    sockets = sockets or max(1, cpus // (cores * threads))
    return NodeConf(sockets, cores, cpus, _number(pairs, "realmemory", 1), count_gres(pairs.get("gres", "")))


def _set_members(pairs: dict[str, str], nodes: dict[str, dict[str, str]]) -> frozenset[str]:
    named = set(_names(pairs.get("nodes", "")))
    wanted = pairs.get("feature")
    having = {name for name, fields in nodes.items() if wanted and wanted in _words(fields.get("feature", ""))}
    return frozenset(named | having)


def _words(text: str) -> set[str]:
    return {word.strip() for word in text.split(",") if word.strip()}


def _partition(pairs: dict[str, str], nodes: dict[str, NodeConf], sets: dict[str, frozenset[str]]) -> PartitionConf:
    members: set[str] = set()
    for name in _names(pairs.get("nodes", "")):
        members |= set(nodes) if name.upper() == "ALL" else sets.get(name, frozenset([name]))
    most = pairs.get("maxnodes", "")

    def rule(verb: str) -> dict[str, frozenset[str]]:
        given = {"account": pairs.get(f"{verb}accounts", "ALL"), "qos": pairs.get(f"{verb}qos", "ALL").lower()}
        return {what: frozenset(_words(value)) for what, value in given.items() if value.upper() not in {"ALL", ""}}

    return PartitionConf(
        nodes=frozenset(members & set(nodes)),
        minutes=read_minutes(pairs.get("maxtime", "")),
        least_nodes=_number(pairs, "minnodes", 0),
        most_nodes=int(most) if most.isdigit() else None,
        allowed=rule("allow"),
        denied=rule("deny"),
    )
