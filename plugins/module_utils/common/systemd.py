"""Command lines as systemd's units write them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["exec_start"]


def exec_start(words: Sequence[str]) -> str:
    """Return a command for ExecStart=, a word on each line, so that each word arrives as it is.

    What must be escaped: systemd.service(5), "Command lines"; systemd.unit(5), "Specifiers".

    Raises:
        ValueError: a word with a line break.
    """
    for word in words:
        if "\n" in str(word):
            message = f"{word!r} has a line break"
            raise ValueError(message)
    return " \\\n  ".join(_escaped(str(word)) for word in words)


def _escaped(word: str) -> str:
    doubled = word.replace("\\", "\\\\").replace("%", "%%").replace("$", "$$").replace('"', '\\"')
    return f'"{doubled}"' if not word or any(letter in word for letter in " \t'\";\\") else doubled
