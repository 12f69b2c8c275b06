"""Check the files that a task of the `templates` action lists, and find their sources in the role."""

from __future__ import annotations

from collections import Counter
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from ansible.module_utils.parsing.convert_bool import boolean

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["KEYS", "checked", "sources"]

# Keys that are passed to the module.
HANDED_ON = ("mode", "owner", "group", "validate", "hidden", "state")
KEYS = ("dest", "src", "content", "program", "vars", "when", *HANDED_ON)
STATES = ("present", "absent")


def checked(listed: Sequence[Mapping[str, Any]], more: Sequence[Mapping[str, Any]] = ()) -> list[dict[str, Any]]:
    """Return the files whose condition (`when`) is true.

    Args:
        listed: the files of the task, with the keys of `KEYS`.
        more: rendered files, with `path`.

    Raises:
        ValueError: if an entry is invalid; the message contains file and key.
    """
    for entry in listed:
        _check(entry)
    kept = [dict(entry) for entry in listed if boolean(entry.get("when", True))]
    counts = Counter([*(entry["dest"] for entry in kept), *(str(entry.get("path")) for entry in more)])
    twice = [dest for dest, count in counts.items() if count > 1]
    if twice:
        message = f"{twice[0]} is listed twice: remove one of the entries, or add conditions (when)"
        raise ValueError(message)
    return kept


def _check(entry: Mapping[str, Any]) -> None:
    """Raise ValueError if an entry has unknown, conflicting or invalid keys."""
    dest = entry.get("dest")
    if not isinstance(dest, str) or not dest.startswith("/") or PurePosixPath(dest).name in {"", ".."}:
        message = f"dest: {dest!r} is not an absolute path: set it for each of the files"
        raise ValueError(message)
    unknown = sorted(set(entry) - set(KEYS))
    if unknown:
        message = f"{dest}: {unknown[0]} is not a known key: use {', '.join(KEYS)}"
        raise ValueError(message)
    given = [key for key in ("src", "content", "program") if key in entry]
    if given[1:]:
        message = f"{dest}: {given[0]} and {given[1]} cannot be combined: remove one"
        raise ValueError(message)
    if entry.get("state", "present") not in STATES:
        message = f"{dest}: state: {entry['state']!r} is not valid: use {' or '.join(STATES)}"
        raise ValueError(message)
    try:
        boolean(entry.get("when", True))
    except TypeError:
        message = f"{dest}: when: {entry['when']!r} must be true or false"
        raise ValueError(message) from None


def sources(entry: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the possible sources of an entry as role folder and relative path; the first existing one is used."""
    src = entry.get("src")
    if src is None:
        below = entry["dest"].lstrip("/")
        return [("templates", f"{below}.j2"), ("files", below)]
    return [("templates" if str(src).endswith(".j2") else "files", str(src))]
