"""Errors that the command line turns into one line and an exit code."""

from __future__ import annotations

__all__ = ["UsageError"]


class UsageError(Exception):
    """What the user gave or the host lacks; the command ends with exit code 2 and this one line."""
