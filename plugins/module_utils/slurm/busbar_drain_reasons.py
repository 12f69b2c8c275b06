"""Drain reasons that busbar sets, for programs that only have the Python standard library."""

from __future__ import annotations

__all__ = ["NEW_REASON", "NEW_RESERVATION", "UPGRADE_REASON", "is_new", "is_untested", "new_reason"]

NEW_REASON = "busbar: new"
UPGRADE_REASON = "busbar: upgrade of Slurm"
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


def new_reason(why: str) -> str:
    """Return the drain reason of a new node that failed its validation."""
    return f"{NEW_REASON}: {why}"
