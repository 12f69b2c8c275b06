"""The files of a site that a slice on another host needs, and what each side changes in them meanwhile."""

from __future__ import annotations

import base64
import hashlib
import os
from pathlib import Path

__all__ = ["TooLargeError", "apply", "changed", "contents", "looks"]

Files = dict[str, tuple[int, str]]
"""Mode and content, in base64, by path within the site."""
# What a run itself writes here, and a sandbox's shared tree.
_LEFT = frozenset({"logs", "reports", "inventory.lock", "storage", "__pycache__"})
_OWNER = 0o700
_MOST_BYTES = 1 << 26


class TooLargeError(ValueError):
    """The site is too large to be sent."""


def looks(site: Path) -> dict[str, str]:
    """Return a digest of each file of a site, by its path there.

    Raises:
        TooLargeError: the folder is no site alone.
        OSError: a file cannot be read.
    """
    found, size = {}, 0
    for path in _walk(site):
        content = path.read_bytes()
        size += len(content)
        if size > _MOST_BYTES:
            message = f"{site}: more than {_MOST_BYTES >> 20} MiB lie in the site's folder, beside logs and reports"
            raise TooLargeError(message)
        found[str(path.relative_to(site))] = hashlib.sha256(content).hexdigest()
    return found


def changed(before: dict[str, str], now: dict[str, str]) -> list[str]:
    """Return the files that are new or not as before."""
    return [name for name, digest in now.items() if before.get(name) != digest]


def contents(site: Path, names: list[str]) -> Files:
    """Return files to be sent."""
    found = {}
    for name in names:
        path = site / name
        found[name] = (path.stat().st_mode & _OWNER, base64.b64encode(path.read_bytes()).decode())
    return found


def apply(site: Path, files: Files) -> None:
    """Write files that were sent, each whole and for its owner alone; those that are there keep their mode.

    Raises:
        ValueError: a path leads out of the site.
        OSError: a file cannot be written.
    """
    for name, (mode, content) in files.items():
        path = site / name
        if Path(name).is_absolute() or ".." in Path(name).parts:
            message = f"{name} is no file of the site"
            raise ValueError(message)
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        kept = path.stat().st_mode & 0o777 if path.exists() else mode & _OWNER
        fresh = path.with_name(f".{path.name}.{os.getpid()}")
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(base64.b64decode(content))
        fresh.chmod(kept)
        fresh.replace(path)


def _walk(site: Path) -> list[Path]:
    found = []
    for folder, folders, names in os.walk(site, followlinks=True):
        folders[:] = sorted(name for name in folders if not name.startswith(".") and name not in _LEFT)
        for name in sorted(names):
            path = Path(folder) / name
            if not name.startswith(".") and name not in _LEFT and not name.endswith(".pyc") and path.is_file():
                found.append(path)
    return found
