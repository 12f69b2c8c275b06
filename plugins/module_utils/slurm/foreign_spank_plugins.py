"""Find SPANK plugins in plugstack.conf that busbar did not install, and the Slurm release they were built for.

Syntax as in Slurm's `spank.c`: ``required|optional LIBRARY [ARGUMENTS]`` and ``include PATTERN``, relative to the file
that contains it; a library without a leading slash is searched in Slurm's plugin directory.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from .elf_symbols import slurm_of_plugin

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["foreign_plugins", "stack_lines"]

# The controller's configuration directory, and the directory in which slurmd and sackd store received files.
FOLDERS = ("/etc/slurm", "/run/slurm/conf")
# Files that busbar writes.
OURS = "plugstack.conf.d/busbar-*.conf"
_PLUGIN_DIRECTORIES = ("usr/lib/*/slurm-wlm", "usr/lib/*/slurm", "usr/lib64/slurm", "usr/lib/slurm")
_LINE = re.compile(r"\s*(required|optional|include)\s+(\S+)")
_ELSEWHERE = re.compile(r"^\s*PlugStackConfig\s*=\s*(\S+)", re.IGNORECASE | re.MULTILINE)


class StackLine(NamedTuple):
    """A line that loads a library, and its file."""

    library: str
    file: str


def stack_lines(path: Path, seen: set[Path] | None = None) -> Iterator[StackLine]:
    """Yield the lines of a plugstack.conf and its includes; each file is read once."""
    seen = set() if seen is None else seen
    if path.resolve() in seen or not path.is_file():
        return
    seen.add(path.resolve())
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        found = _LINE.match(line.partition("#")[0])
        if found is None:
            continue
        kind, what = found.groups()
        if kind != "include":
            yield StackLine(what, str(path))
            continue
        pattern = Path(what)
        folder = Path(pattern.anchor) if pattern.is_absolute() else path.parent
        for each in sorted(folder.glob(str(pattern.relative_to(pattern.anchor)))):
            yield from stack_lines(each, seen)


def foreign_plugins(root: Path = Path("/")) -> list[dict[str, str]]:
    """Return the plugins that busbar does not load: `library`, `file` with its line, and `slurm`.

    Missing and invalid plugins are omitted, because the installed Slurm cannot load them either.

    Args:
        root: root directory of the host.
    """
    found, seen = [], set[Path]()
    for path in _stacks(root):
        for line in stack_lines(path, seen):
            library = _library(line.library, root)
            if library is None or Path(line.file).match(OURS):
                continue
            try:
                slurm = slurm_of_plugin(library.read_bytes())
            except (OSError, ValueError):
                continue
            found.append({"library": str(library), "file": _source(line.file, root), "slurm": slurm})
    return found


def _source(file: str, root: Path) -> str:
    """Return the original path of a file that slurmd received from the controller, because the copy is not editable."""
    source, sent = (root / folder.lstrip("/") for folder in FOLDERS)
    path = Path(file)
    return str(source / path.relative_to(sent) if path.is_relative_to(sent) else path)


def _stacks(root: Path) -> Iterator[Path]:
    """Yield the possible paths of plugstack.conf."""
    for folder in FOLDERS:
        place = root / folder.lstrip("/")
        yield place / "plugstack.conf"
        try:
            text = (place / "slurm.conf").read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue
        for match in _ELSEWHERE.finditer(text):
            yield root / match[1].lstrip("/")


def _library(name: str, root: Path) -> Path | None:
    """Return the path of a library, or None if it does not exist."""
    if name.startswith("/"):
        path = Path(name)
        return path if path.is_file() else None
    places = (found for folder in _PLUGIN_DIRECTORIES for found in sorted(root.glob(f"{folder}/{name}")))
    return next(places, None)
