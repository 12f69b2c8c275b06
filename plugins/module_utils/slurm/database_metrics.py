"""Measure the size of the accounting database for Prometheus."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from .cluster_metrics import Family, one

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["database_bytes", "database_families"]


def database_bytes(folder: Path) -> int:
    """Return the size in bytes of a directory tree.

    Raises:
        OSError: the directory cannot be read.
    """
    return sum(path.lstat().st_size for path in [folder, *folder.rglob("*")])


def database_families(settings: Mapping[str, Any]) -> list[Family]:
    """Return the series of the accounting database on this host.

    Raises:
        OSError: the directory cannot be read.
    """
    return [one("database_bytes", "Size of the accounting database.", database_bytes(Path(settings["directory"])))]
