"""Drain reasons that busbar sets, for programs that only have the Python standard library."""

from __future__ import annotations

__all__ = [
    "NEW_REASON",
    "NEW_RESERVATION",
    "REPAIR_REASON",
    "UPDATE_REASON",
    "UPGRADE_REASON",
    "is_new",
    "is_unfinished",
    "is_untested",
    "new_reason",
]

NEW_REASON = "busbar: new"
UPGRADE_REASON = "busbar: upgrade of Slurm"
UPDATE_REASON = "busbar: update"
REPAIR_REASON = "busbar: repair"
# The reasons of playbooks that run or were interrupted; only the same playbook resumes these nodes.
_UNFINISHED = frozenset({UPGRADE_REASON, UPDATE_REASON, REPAIR_REASON, "busbar: its machine is replaced"})
# This reservation keeps other jobs off a new node while it is resumed for a test.
NEW_RESERVATION = "busbar-new"


def is_new(reason: str) -> bool:
    """Return whether a drain reason marks a new node that has not passed its validation."""
    return is_untested(reason) or reason.startswith(f"{NEW_REASON}: ")


def is_untested(reason: str) -> bool:
    """Return whether a drain reason marks a new node without a verdict.

    If a drained node stops responding, slurmctld appends a reason after " : " (seen with 24.11).
    """
    return reason.partition(" : ")[0] == NEW_REASON


def is_unfinished(reason: str) -> bool:
    """Return whether a playbook that changes the node has not finished."""
    return reason.partition(" : ")[0] in _UNFINISHED


def new_reason(why: str) -> str:
    """Return the drain reason of a new node that failed its validation."""
    return f"{NEW_REASON}: {why}"
