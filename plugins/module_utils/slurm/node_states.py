"""Reduce the base state and flags of a node to one word, as `sinfo` does."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["NODE_STATES", "node_state", "split_state"]

NODE_STATES = (
    *("idle", "mixed", "allocated", "down", "drained", "draining"),
    *("reserved", "maint", "planned", "other"),
)
_MARKS = {
    "*": "NOT_RESPONDING",
    "~": "POWERED_DOWN",
    "#": "POWERING_UP",
    "%": "POWERING_DOWN",
    "!": "POWER_DOWN",
    "$": "MAINTENANCE",
    "@": "REBOOT_REQUESTED",
    "^": "REBOOT_ISSUED",
    "-": "PLANNED",
}
_MARKED = re.compile(r"^(\w+)([^\w]*)$")
_BUSY = {"ALLOCATED": "allocated", "ALLOC": "allocated", "MIXED": "mixed", "MIX": "mixed"}
# Slurm starts, stops, reboots or rejects these nodes; they are neither free nor broken.
_AWAY = frozenset(
    {
        *("POWERED_DOWN", "POWERING_DOWN", "POWER_DOWN", "POWERING_UP", "POWER_UP", "CLOUD_DOWN"),
        *("REBOOT_ISSUED", "REBOOT_REQUESTED", "REBOOT", "INVALID_REG", "BLOCKED", "EXTERNAL"),
    }
)
_ASLEEP = frozenset({"POWERED_DOWN", "POWERING_DOWN", "POWERING_UP", "POWER_UP", "REBOOT_ISSUED"})


def split_state(state: str | Iterable[str], flags: Iterable[str] = ()) -> list[str]:
    """Return base state and flags in capitals, the base state first.

    Slurm writes ``IDLE+DRAIN``, ``DOWN*+DRAIN``, or ``idle`` with a separate list of flags, or one list of all.
    """
    words = state.split("+") if isinstance(state, str) else list(state)
    found: list[str] = []
    for word in [*words, *flags]:
        matched = _MARKED.match(str(word).strip().upper())
        if matched:
            found += [matched[1], *(_MARKS[mark] for mark in matched[2] if mark in _MARKS)]
    return found


def node_state(words: Iterable[str]) -> str:
    """Return one of NODE_STATES for a base state and its flags, in any order.

    The order of the checks is that of `sinfo` (node_state_string in Slurm's slurm_protocol_defs.c): maintenance, then
    drain, then the base state. Unlike in `sinfo`, a node that does not respond is ``down``, because no job starts on
    it.
    """
    known = set(words)
    busy = next((_BUSY[word] for word in sorted(known) if word in _BUSY), "")
    down = bool(known & {"DOWN", "ERROR"})
    unanswered = "NOT_RESPONDING" in known and not known & _ASLEEP
    for state, holds in (
        ("maint", known & {"MAINTENANCE", "MAINT"} and not (busy or down or "DRAIN" in known)),
        ("draining", known & {"DRAIN", "FAIL"} and (busy or "COMPLETING" in known)),
        ("drained", known & {"DRAIN", "FAIL", "DRAINED"}),
        ("down", down or unanswered),
        (busy, busy),
        ("other", known & _AWAY or "IDLE" not in known),
        # The jobs have finished but their epilogs have not, so no job starts yet.
        ("allocated", "COMPLETING" in known),
        ("reserved", "RESERVED" in known),
        ("planned", "PLANNED" in known),
    ):
        if holds:
            return state
    return "idle"
