"""Parses numbers on the command line."""

from __future__ import annotations

from busbar.errors import UsageError


def whole(option: str, text: str, least: int, most: int) -> int:
    """Return an integer in a range.

    Raises:
        UsageError: the text is not an integer, or out of range.
    """
    number = int(text) if text.isascii() and text.isdigit() and len(text) < len("1000000000") else -1
    if not least <= number <= most:
        message = f"{option}: {text!r} is not a whole number from {least} to {most}"
        raise UsageError(message)
    return number


def percent(option: str, text: str, least: float, most: float) -> float:
    """Return a percentage as a fraction of 1.

    Raises:
        UsageError: the text is not a number, or out of range.
    """
    try:
        value = float(text.removesuffix("%"))
    except ValueError:
        value = -1.0
    if not least <= value <= most:
        message = f"{option}: {text!r} is not a percentage from {least:g} to {most:g}"
        raise UsageError(message)
    return value / 100
