"""Numbers that the user gives on the command line."""

from __future__ import annotations

from busbar.errors import UsageError

__all__ = ["percent", "whole"]


def whole(option: str, text: str, least: int, most: int) -> int:
    """A whole number between two others.

    Raises:
        UsageError: it is none.
    """
    number = int(text) if text.isascii() and text.isdigit() and len(text) < len("1000000000") else -1
    if not least <= number <= most:
        message = f"{option}: {text!r} is not a whole number from {least} to {most}"
        raise UsageError(message)
    return number


def percent(option: str, text: str, least: float, most: float) -> float:
    """A share, of 1, that was given in percent.

    Raises:
        UsageError: it is none, or not between the two.
    """
    try:
        value = float(text.removesuffix("%"))
    except ValueError:
        value = -1.0
    if not least <= value <= most:
        message = f"{option}: {text!r} is not a percentage from {least:g} to {most:g}"
        raise UsageError(message)
    return value / 100
