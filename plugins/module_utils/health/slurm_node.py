"""What to tell Slurm about a node: drained, returned or left alone, and how many nodes at once. Pure."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "PASSES",
    "PREFIX",
    "Record",
    "allowed_drains",
    "drain_reason",
    "drained_before",
    "node_record",
    "records",
    "step",
]

# What a reason of the health check begins with; a drain with another reason is never touched.
PREFIX = "busbar health:"
# How often a node must be found sound, one look after the other, before it comes back.
PASSES = 2
_MOST_PROBLEMS = 3
# Slurm keeps any length, sinfo and squeue show one line.
_LONGEST_REASON = 400
_NAME = re.compile(r"^\s*NodeName=(\S+)", re.MULTILINE)
_STATE = re.compile(r"(?:^|\s)State=(\S+)", re.MULTILINE)
# Slurm adds who gave it and when; some releases put more behind that.
_REASON = re.compile(r"(?:^|\s)Reason=(.*?)(?: \[[^\[\]@\s]*@(\d[^\[\]\s]*)\].*)?\s*$", re.MULTILINE)
_OUT_OF_SERVICE = {"DRAIN", "DOWN", "FAIL", "FAILING"}


class Record(NamedTuple):
    """A node as Slurm knows it: the words of its state, why it is out of service, its name, and since when."""

    states: frozenset[str]
    reason: str
    name: str = ""
    since: str = ""

    @property
    def is_out(self) -> bool:
        """Whether it takes no jobs because somebody said so."""
        return bool(self.states & _OUT_OF_SERVICE)

    @property
    def is_ours(self) -> bool:
        """Whether the health check drained it."""
        return self.is_out and self.reason.startswith(PREFIX)


def drain_reason(problems: Sequence[str]) -> str:
    """Return the reason of a drain: one line that begins with PREFIX."""
    more = len(problems) - _MOST_PROBLEMS
    said = [*problems[:_MOST_PROBLEMS], *([f"and {more} more"] if more > 0 else [])]
    text = " ".join(f"{PREFIX} {'; '.join(said)}".split()).replace('"', "'")
    return text if len(text) <= _LONGEST_REASON else f"{text[: _LONGEST_REASON - 3]}..."


def node_record(text: str) -> Record:
    """Return state and reason from `scontrol show node NAME`, also with `--oneliner`.

    Raises:
        ValueError: the text tells of no node.
    """
    name, state, reason = _NAME.search(text), _STATE.search(text), _REASON.search(text)
    if not state:
        message = f"scontrol tells no state of the node: {text.strip()[:200]}"
        raise ValueError(message)
    words = (word.rstrip("*~#!%$@^-") for word in state.group(1).split("+"))
    return Record(
        frozenset(words),
        reason.group(1).strip() if reason else "",
        name.group(1) if name else "",
        (reason.group(2) or "") if reason else "",
    )


def records(text: str) -> list[Record]:
    """Return all nodes from `scontrol --oneliner show nodes`.

    Raises:
        ValueError: a line tells of no node, or there is none.
    """
    found = [node_record(line) for line in text.splitlines() if line.strip()]
    if not found:
        message = "scontrol tells of no node"
        raise ValueError(message)
    return found


def allowed_drains(nodes: int, percent: float) -> int:
    """Return how many nodes of a cluster the health check may keep drained at a time: a share, and at least one."""
    return max(1, math.floor(nodes * percent / 100))


def drained_before(everyone: Sequence[Record], name: str) -> int:
    """Return how many other nodes the health check drained before this one; all of them, when this one is not drained.

    Nodes that were drained in the same second count in the order of their names, so that each of them finds the same.
    """
    ours = sorted((each.since, each.name) for each in everyone if each.is_ours)
    place = next((number for number, each in enumerate(ours) if each[1] == name), None)
    return len(ours) if place is None else place


def step(problems: Sequence[str], record: Record, *, resume: bool, known: bool) -> str:
    """Return what to do with a node: `drain`, `resume`, `keep` (it is out by our own reason), `leave` or `given_back`.

    Args:
        problems: what is wrong with it.
        record: what Slurm says of it. Whatever is out of service for another reason is left to whoever gave that one.
        resume: whether a node that is sound again may come back by itself.
        known: whether the node's own note says that the health check drained it. One that is in service nevertheless
            was given back by somebody, who knows what was wrong: old events count no more.
    """
    if record.is_out and not record.is_ours:
        return "leave"
    if known and not record.is_out:
        return "given_back"
    if problems:
        return "keep" if record.is_ours else "drain"
    if not record.is_ours:
        return "leave"
    return "resume" if resume else "keep"
