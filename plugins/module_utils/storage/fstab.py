"""The text of fstab with the mounts that are declared; all other lines stay as they are, fstab(5)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["fstab_text"]

# The last two fields may be missing, and are 0 then.
_FEWEST, _FIELDS = 4, 6
_ESCAPED = {"\\": "\\134", " ": "\\040", "\t": "\\011"}


def _field(word: str) -> str:
    return "".join(_ESCAPED.get(letter, letter) for letter in word)


def _fields(line: str) -> list[str]:
    """Return the fields of a line, none when it says nothing of a mount."""
    found = line.split()
    if not _FEWEST <= len(found) <= _FIELDS or found[0].startswith("#"):
        return []
    return [*found, "0", "0"][:_FIELDS]


def fstab_text(text: str, mounts: Sequence[Mapping[str, str]]) -> tuple[str, list[str]]:
    """Return the text with the line of each mount, and the paths of those whose line is new or another one.

    Args:
        text: of fstab.
        mounts: each with `src`, `path`, `fstype` and `options`.
    """
    wanted = {_field(item["path"]): item for item in mounts}
    lines, found, rewritten = [], set(), []
    for line in text.splitlines():
        fields = _fields(line)
        item = wanted.get(fields[1]) if fields else None
        if item is None:
            lines.append(line)
            continue
        found.add(item["path"])
        new = _line(item)
        lines.append(line if fields == new.split() else new)
        if lines[-1] is new and item["path"] not in rewritten:
            rewritten.append(item["path"])
    added = [item for item in mounts if item["path"] not in found]
    lines += [_line(item) for item in added]
    rewritten += [item["path"] for item in added]
    return ("".join(f"{line}\n" for line in lines) if rewritten else text), rewritten


def _line(item: Mapping[str, str]) -> str:
    words = (item["src"], item["path"], item["fstype"], item["options"])
    return " ".join([*map(_field, words), "0", "0"])
