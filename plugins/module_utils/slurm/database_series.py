"""Series of the accounting database: its size, and its host's part in a MariaDB cluster."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from .galera_host import Host
from .series import Family, one

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["cluster_families", "database_bytes", "database_families"]


def database_bytes(folder: Path) -> int:
    """Return the size in bytes of what lies in a directory and below.

    Raises:
        OSError: it cannot be read.
    """
    return sum(path.lstat().st_size for path in [folder, *folder.rglob("*")])


def database_families(settings: Mapping[str, Any]) -> list[Family]:
    """Return the series of this host; `cluster` is the number of hosts of a cluster, 0 for none.

    Raises:
        OSError: the directory cannot be read.
    """
    families = [one("database_bytes", "Size of the accounting database.", database_bytes(Path(settings["directory"])))]
    wanted = int(settings.get("cluster", 0))
    return [*families, *cluster_families(Host("", settings["socket"]).status(), wanted)] if wanted else families


def cluster_families(status: Mapping[str, str], wanted: int) -> list[Family]:
    """Return the series of a host's part in a cluster, of what MariaDB says; of nothing where it does not answer."""
    majority = status.get("wsrep_cluster_status") == "Primary"
    size = status.get("wsrep_cluster_size", "0")
    return [
        one("database_cluster_expected_hosts", "Hosts that the cluster of databases is to have.", wanted),
        one(
            "database_cluster_hosts",
            "Hosts of the cluster of databases that this one sees; 0 without a majority.",
            int(size) if majority and size.isdigit() else 0,
        ),
    ]
