"""Reasons with which busbar drains nodes, for programs that have only the standard library as well."""

from __future__ import annotations

__all__ = ["NEW_REASON", "NEW_RESERVATION", "UPGRADE_REASON", "is_new", "is_untested", "new_reason"]

NEW_REASON = "busbar: new"
UPGRADE_REASON = "busbar: upgrade of Slurm"
# What keeps the jobs of others from a node behind the gate while it is not drained, for a test to start on it.
NEW_RESERVATION = "busbar-new"


def is_new(reason: str) -> bool:
    """Return whether a node that is drained for this reason is new and not yet admitted."""
    return is_untested(reason) or reason.startswith(f"{NEW_REASON}: ")


def is_untested(reason: str) -> bool:
    """Return whether a node is new and was not judged yet.

    To the reason of a drained node that falls silent slurmctld adds its own after " : " (seen with 24.11).
    """
    return reason.partition(" : ")[0] == NEW_REASON


def new_reason(why: str) -> str:
    """Return the reason of a node that was not admitted, with why."""
    return f"{NEW_REASON}: {why}"
