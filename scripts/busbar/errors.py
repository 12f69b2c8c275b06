"""Errors that the command line turns into one line and an exit code."""

from __future__ import annotations

__all__ = ["UsageError"]


class UsageError(Exception):
    """Bad input, or something that the host lacks; the command ends with exit code 2 and this message."""
