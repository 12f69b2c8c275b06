"""Writes busbar's files into an inventory folder without changing the user's files."""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING, Any

import yaml

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

NOTE = """\
# Written by `busbar {command}`, which overwrites it each time; if you changed it, your version is saved as
# {name}.1.orig. Put your variables into group_vars/all/zzz_site.yml: Ansible reads the files of a folder in the order
# of their names, and the last value wins.
"""
_CHECKSUM = re.compile(r"^# checksum of what follows: ([0-9a-f]{64})\n---\n", re.MULTILINE)


def write_own(path: Path, data: dict[str, Any], command: str, say: Callable[[str], None]) -> None:
    """Write data as YAML in its order; save a copy of a file that a user has changed.

    Args:
        path: the file, whose folder exists.
        data: the new content.
        command: the command that writes the file, for its header.
        say: shows a message about the copy.
    """
    body = yaml.safe_dump(data, sort_keys=False, width=110)
    text = f"{NOTE.format(command=command, name=path.name)}# checksum of what follows: {_digest(body)}\n---\n{body}"
    if path.is_symlink() or path.exists():
        present = path.read_text(encoding="utf-8", errors="surrogateescape") if path.is_file() else ""
        if present == text and not path.is_symlink():
            return
        if path.is_symlink() or not _untouched(present):
            kept = _free_name(path)
            path.rename(kept)
            say(f"{path} was modified: saved as {kept.name}; put your variables into zzz_site.yml")
    fresh = path.with_name(f".{path.name}.new")
    fresh.write_text(text, encoding="utf-8")
    fresh.replace(path)


def _untouched(text: str) -> bool:
    """Return whether a file is unchanged since busbar wrote it."""
    found = _CHECKSUM.search(text)
    return found is not None and text.startswith("# Written by `busbar ") and _digest(text[found.end() :]) == found[1]


def _digest(body: str) -> str:
    return hashlib.sha256(body.encode("utf-8", errors="surrogateescape")).hexdigest()


def _free_name(path: Path) -> Path:
    """Return an unused name in the same folder that Ansible does not read."""
    number = 1
    while (kept := path.with_name(f"{path.name}.{number}.orig")).exists() or kept.is_symlink():
        number += 1
    return kept
