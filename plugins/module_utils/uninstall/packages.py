"""Find the packages that busbar's transactions changed in the package manager's history."""

from __future__ import annotations

import re

__all__ = ["AUTOMATIC", "parse_history", "parse_simulation", "parse_transactions"]

# Installed as a dependency.
AUTOMATIC = "automatic"
_IN_HISTORY = re.compile(r"([a-z0-9][a-z0-9+.-]+):\S+ \(([^)]*)\)")


def parse_simulation(text: str) -> tuple[set[str], set[str]]:
    """Return the packages that `apt-get --simulate` would remove and those that it would install."""
    rows = [line.split() for line in text.splitlines()]
    words = [(row[0], row[1].partition(":")[0]) for row in rows if len(row) > 1]
    return (
        {name for action, name in words if action in {"Remv", "Purg"}},
        {name for action, name in words if action == "Inst"},
    )


def parse_history(text: str) -> tuple[dict[str, str], set[str]]:
    """Return the packages that were installed ('manual' or 'automatic') and removed according to apt's history.

    Killed transactions are included, because apt logs a transaction before it starts dpkg.
    """
    brought: dict[str, str] = {}
    taken: set[str] = set()
    for line in text.splitlines():
        key, _, rest = line.partition(": ")
        names = {match[1]: match[2] for match in _IN_HISTORY.finditer(rest)}
        if key == "Install":
            brought |= {
                name: AUTOMATIC if reason.endswith(f", {AUTOMATIC}") else "manual" for name, reason in names.items()
            }
        elif key in {"Remove", "Purge"}:
            taken |= {name for name in names if brought.pop(name, None) is None}
    return brought, taken


def parse_transactions(text: str) -> tuple[dict[str, str], set[str]]:
    """Return the same as `parse_history` from `dnf history info`, for the transactions with busbar's comment."""
    brought: dict[str, str] = {}
    taken: set[str] = set()
    for block in text.split("Transaction ID")[1:]:
        if "--comment=busbar" not in block:
            continue
        for words in (line.split() for line in block.partition("Packages Altered:")[2].splitlines()):
            # The name includes version and release: munge-0.5.13-13.el9.x86_64
            if len(words) > 1 and words[0] in {"Install", "Dep-Install"}:
                brought[words[1].rsplit("-", 2)[0]] = "manual"
            elif len(words) > 1 and words[0] in {"Removed", "Erase", "Obsoleted"}:
                taken.add(words[1].rsplit("-", 2)[0])
    return brought, taken - brought.keys()
