"""Decide whether the health check drains or resumes a node, and how many nodes at once."""

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

# Prefix of the health check's drain reasons; nodes drained for other reasons are never changed.
PREFIX = "busbar health:"
# Number of consecutive checks that a node must pass before it is resumed.
PASSES = 2
_MOST_PROBLEMS = 3
# Slurm has no limit, but sinfo and squeue show only one line.
_LONGEST_REASON = 400
_NAME = re.compile(r"^\s*NodeName=(\S+)", re.MULTILINE)
_STATE = re.compile(r"(?:^|\s)State=(\S+)", re.MULTILINE)
# Slurm appends the user and the time; some releases append more fields.
_REASON = re.compile(r"(?:^|\s)Reason=(.*?)(?: \[[^\[\]@\s]*@(\d[^\[\]\s]*)\].*)?\s*$", re.MULTILINE)
_OUT_OF_SERVICE = {"DRAIN", "DOWN", "FAIL", "FAILING"}


class Record(NamedTuple):
    """A node's state, drain reason and name in Slurm, and the time of the drain."""

    states: frozenset[str]
    reason: str
    name: str = ""
    since: str = ""

    @property
    def is_out(self) -> bool:
        """Whether the node is drained, down or failed."""
        return bool(self.states & _OUT_OF_SERVICE)

    @property
    def is_ours(self) -> bool:
        """Whether the health check drained the node."""
        return self.is_out and self.reason.startswith(PREFIX)


def drain_reason(problems: Sequence[str]) -> str:
    """Return a drain reason: one line that begins with PREFIX."""
    more = len(problems) - _MOST_PROBLEMS
    shown = [*problems[:_MOST_PROBLEMS], *([f"and {more} more"] if more > 0 else [])]
    text = " ".join(f"{PREFIX} {'; '.join(shown)}".split()).replace('"', "'")
    return text if len(text) <= _LONGEST_REASON else f"{text[: _LONGEST_REASON - 3]}..."


def node_record(text: str) -> Record:
    """Return state and reason from `scontrol show node NAME`, also with `--oneliner`.

    Raises:
        ValueError: the text has no node state.
    """
    name, state, reason = _NAME.search(text), _STATE.search(text), _REASON.search(text)
    if not state:
        message = f"scontrol reported no state for the node: {text.strip()[:200]}"
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
        ValueError: a line contains no node state, or the output is empty.
    """
    found = [node_record(line) for line in text.splitlines() if line.strip()]
    if not found:
        message = "scontrol returned no nodes"
        raise ValueError(message)
    return found


def allowed_drains(nodes: int, percent: float) -> int:
    """Return how many nodes the health check may keep drained at once: a percentage of all nodes, at least one."""
    return max(1, math.floor(nodes * percent / 100))


def drained_before(everyone: Sequence[Record], name: str) -> int:
    """Return how many nodes the health check drained before this node, or in total if it did not drain this node.

    Nodes drained in the same second are ordered by name, so that all nodes compute the same order.
    """
    ours = sorted((each.since, each.name) for each in everyone if each.is_ours)
    place = next((number for number, each in enumerate(ours) if each[1] == name), None)
    return len(ours) if place is None else place


def step(problems: Sequence[str], record: Record, *, resume: bool, known: bool) -> str:
    """Return the action for a node: `drain`, `resume`, `keep` (drained by the health check), `leave` or `given_back`.

    Args:
        problems: problems found on the node.
        record: state of the node in Slurm. A node that is out of service for another reason is left alone.
        resume: whether a recovered node may be resumed automatically.
        known: whether the note on the node records a drain by the health check. If the node is in service, an
            administrator has resumed it, so earlier events are ignored.
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
