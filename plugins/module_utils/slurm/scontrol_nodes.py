"""Parse the output of `scontrol show nodes` as text, or as JSON from any release."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

from .hostlist import split_outside
from .node_states import node_state, split_state

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = ["Node", "count_gpus", "plain_number", "read_json_nodes", "read_text_nodes"]

_MIB = 1 << 20
_UNTYPED = "gpu"
_NOTES = re.compile(r"\([^)]*\)")
_KEY = re.compile(r"(?:^|\s)([A-Z][A-Za-z]*(?:[/:]\w+)*)=")
# scontrol appends the reason's user and time (separate fields in JSON), and then other fields.
_SIGNED = re.compile(r"\s*\[\S+@\d[^\]]*\](?:\s+(?:Comment|Extra|InstanceId|InstanceType|ReservationName)=.*)?$")


class Node(NamedTuple):
    """A node; memory in bytes, GPUs by type in Slurm (``gpu`` for GPUs without a type)."""

    name: str
    state: str
    reason: str
    partitions: tuple[str, ...]
    gpus: dict[str, int]
    gpus_used: dict[str, int]
    cpus: int
    cpus_used: int
    memory: int
    memory_used: int


def plain_number(value: Any) -> int:  # noqa: ANN401 - parsed JSON
    """Return a number from Slurm's JSON: 5, '5', {'set': true, 'infinite': false, 'number': 5}; 0 if unset."""
    if isinstance(value, dict):
        if value.get("set") is False or value.get("infinite"):
            return 0
        value = value.get("number")
    try:
        return int(float(value or 0))
    except (OverflowError, TypeError, ValueError):
        return 0


def count_gpus(gres: str) -> dict[str, int]:
    """Return the GPUs of a Gres by type: 'gpu:1g.10gb:21(S:1),gpu:h100:4(IDX:0-3)' gives both counts."""
    found: dict[str, int] = {}
    for item in split_outside(gres or "", "(", ")"):
        words = _NOTES.sub("", item).split(":")
        if words[0] != "gpu":
            continue
        count = words.pop() if len(words) > 1 and words[-1].isdigit() else "1"
        kind = words[1] if len(words) > 1 else _UNTYPED
        found[kind] = found.get(kind, 0) + int(count)
    return found


def read_json_nodes(data: Mapping[str, Any]) -> list[Node]:
    """Return the nodes in the JSON of Slurm 21.08 to 25.11."""
    return [_json_node(item) for item in data.get("nodes") or [] if item.get("name")]


def _json_node(item: Mapping[str, Any]) -> Node:
    words = split_state(item.get("state") or "UNKNOWN", item.get("state_flags") or ())
    partitions = item.get("partitions") or ()
    if isinstance(partitions, str):
        partitions = partitions.split(",")
    return _node(
        name=str(item["name"]),
        words=words,
        reason=str(item.get("reason") or ""),
        partitions=tuple(partitions),
        gres=(str(item.get("gres") or ""), str(item.get("gres_used") or "")),
        # `cpus` includes cores that are reserved for the system.
        cpus=(plain_number(item.get("effective_cpus")) or plain_number(item.get("cpus")), item.get("alloc_cpus")),
        memory=(item.get("real_memory"), item.get("alloc_memory")),
    )


def read_text_nodes(text: str) -> list[Node]:
    """Return the nodes in the output of ``scontrol show nodes --oneliner --details``."""
    nodes = []
    for line in text.split("\n"):
        values: dict[str, str] = {}
        ends = [key.start() for key in _KEY.finditer(line)][1:]
        for place, key in enumerate(_KEY.finditer(line)):
            # Free text comes last, so the first match of a key is the real one.
            values.setdefault(key[1], line[key.end() : ends[place] if place < len(ends) else None].strip())
        if "NodeName" not in values:
            continue
        # Take the rest of the line, because a reason may contain text that looks like a key.
        reason = line.partition(" Reason=")[2].strip()
        nodes.append(
            _node(
                name=values["NodeName"],
                words=split_state(values.get("State", "UNKNOWN")),
                reason=_SIGNED.sub("", reason),
                partitions=tuple(filter(None, values.get("Partitions", "").split(","))),
                gres=(values.get("Gres", ""), values.get("GresUsed", "")),
                cpus=(values.get("CPUEfctv") or values.get("CPUTot"), values.get("CPUAlloc")),
                memory=(values.get("RealMemory"), values.get("AllocMem")),
            )
        )
    return nodes


def _node(  # noqa: PLR0913 - the fields of a node
    *,
    name: str,
    words: Iterable[str],
    reason: str,
    partitions: tuple[str, ...],
    gres: tuple[str, str],
    cpus: tuple[Any, Any],
    memory: tuple[Any, Any],
) -> Node:
    """Return a node from the values of either format; memory values are in MiB."""
    gpus, used = count_gpus(gres[0]), count_gpus(gres[1])
    return Node(
        name=name,
        state=node_state(words),
        reason="" if reason == "none" else reason,
        partitions=partitions,
        gpus=gpus,
        # Nodes without GPUs report gpu:0 as used.
        gpus_used={**dict.fromkeys(gpus, 0), **{kind: count for kind, count in used.items() if count}},
        cpus=plain_number(cpus[0]),
        cpus_used=plain_number(cpus[1]),
        memory=plain_number(memory[0]) * _MIB,
        memory_used=plain_number(memory[1]) * _MIB,
    )
