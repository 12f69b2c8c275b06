"""Format command lines for systemd units, and parse the states of units."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["exec_start", "unit_states"]


def exec_start(words: Sequence[str]) -> str:
    """Return a command for ExecStart= with one word per line, escaped so that each word is passed unchanged.

    Escaping: systemd.service(5), "Command lines"; systemd.unit(5), "Specifiers".

    Raises:
        ValueError: a word contains a line break.
    """
    for word in words:
        if "\n" in str(word):
            message = f"{word!r} has a line break"
            raise ValueError(message)
    return " \\\n  ".join(_escaped(str(word)) for word in words)


def unit_states(text: str) -> dict[str, dict[str, str]]:
    """Return `enabled` and `active` of units from ``systemctl show -p Id,UnitFileState,ActiveState``."""
    found = {}
    for block in text.split("\n\n"):
        values = dict(line.split("=", 1) for line in block.splitlines() if "=" in line)
        name = values.get("Id", "").removesuffix(".service")
        found[name] = {"enabled": values.get("UnitFileState", ""), "active": values.get("ActiveState", "")}
    return found


def _escaped(word: str) -> str:
    doubled = word.replace("\\", "\\\\").replace("%", "%%").replace("$", "$$").replace('"', '\\"')
    return f'"{doubled}"' if not word or any(letter in word for letter in " \t'\";\\") else doubled
