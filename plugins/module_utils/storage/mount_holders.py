"""Find the processes that use a directory through /proc, without contacting a file server."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Any

from .mounts import lies_in

__all__ = ["PROC", "holders", "read"]

PROC = Path("/proc")


def read(path: Path) -> str:
    """Return the text of a file, or '' if it cannot be read."""
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


def holders(path: str, proc: Path = PROC) -> list[dict[str, Any]]:
    """Return `pid` and `command` of processes with working directory, root or open files below a path."""
    found = []
    for process in sorted(proc.glob("[0-9]*"), key=lambda entry: int(entry.name)):
        if int(process.name) == os.getpid():
            continue
        links = [process / "cwd", process / "root"]
        with suppress(OSError):
            links += list((process / "fd").iterdir())
        if any(lies_in(_target(link), path) for link in links):
            found.append({"pid": int(process.name), "command": read(process / "comm").strip()})
    return found


def _target(link: Path) -> str:
    """Return the target of a link in /proc, or '' if it is gone."""
    try:
        return str(link.readlink())
    except OSError:
        return ""
