"""Read the settings of the backup program; define its exceptions."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

__all__ = ["BackupError", "NoSnapshotError", "Settings", "parts_of", "read_settings"]


class BackupError(Exception):
    """A backup or restore is not possible; the message has the reason and the remedy."""


class NoSnapshotError(BackupError):
    """The repository has no such snapshot of this host."""


class Settings(NamedTuple):
    """Configuration of the backup program.

    `slurm_state`, `database`, `grafana` and `directory` (slapd.conf) are empty if the host does not have the part.
    `paths` must exist, `configurations` may be missing. `max_age_s` is in seconds.
    """

    cluster: str
    host: str
    repository: str
    folder: str
    restic: str = "/usr/local/sbin/busbar-restic"
    slurm_state: str = ""
    slurm_user: str = "slurm"
    database: str = ""
    database_socket: str = "/run/mysqld/mysqld.sock"
    grafana: str = ""
    directory: str = ""
    directory_data: str = "/var/lib/ldap"
    directory_user: str = "openldap"
    paths: Sequence[str] = ()
    configurations: Sequence[str] = ()
    metrics: str = ""
    max_age_s: int = 0


def parts_of(settings: Settings) -> list[str]:
    """Return the names of the parts of a host."""
    has = {
        "slurm_state": settings.slurm_state,
        "accounting": settings.database,
        "grafana": settings.grafana,
        "directory": settings.directory,
    }
    return [part for part, where in has.items() if where]


def read_settings(path: Path) -> Settings:
    """Read the settings that the role wrote.

    Raises:
        BackupError: the file is missing or invalid.
    """
    try:
        return Settings(**read_json(path))
    except TypeError as error:
        message = f"{path}: {error}; to rewrite it: busbar provision backup"
        raise BackupError(message) from error


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON file that the role wrote.

    Raises:
        BackupError: the file is missing or invalid.
    """
    try:
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        message = f"{path}: {error}; to rewrite it: busbar provision backup"
        raise BackupError(message) from error
    return found
