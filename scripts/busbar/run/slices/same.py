"""Whether another host has the same busbar: its own files, and the Ansible that runs them."""

from __future__ import annotations

import hashlib
import os
from importlib import metadata
from pathlib import Path

from busbar.paths import collection

__all__ = ["program"]

_PARTS = ("roles", "plugins", "playbooks")


def program() -> dict[str, str]:
    """Return versions and one digest of all files that decide what a run does."""
    total = hashlib.sha256()
    for top in (*(collection() / part for part in _PARTS), Path(__file__).parents[2]):
        for folder, folders, names in os.walk(top):
            folders[:] = sorted(name for name in folders if name != "__pycache__")
            for name in sorted(name for name in names if not name.endswith(".pyc")):
                path = Path(folder) / name
                total.update(f"{path.relative_to(top.parent)}\0".encode())
                total.update(path.read_bytes())
    return {"files": total.hexdigest()[:12], "ansible-core": metadata.version("ansible-core")}
