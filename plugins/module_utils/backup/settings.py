"""What the role writes down for the program on a host, and how the program says that something is wrong."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

__all__ = ["BackupError", "NoSnapshotError", "Settings", "parts_of", "read_json", "read_settings"]


class BackupError(Exception):
    """A backup or a restore cannot be done; the message says why and what to do."""


class NoSnapshotError(BackupError):
    """This host has no such snapshot."""


class Settings(NamedTuple):
    """What is kept of this host, where, and for how long.

    `slurm_state`, `database`, `grafana` and `directory` (slapd.conf) are empty where the host has no such thing.
    `paths` must be there, `configurations` may be missing. `environment_file` is JSON of its own: it holds secrets
    that no difference of two files may show. `keep` has restic's names, such as ``daily``, and numbers of snapshots.
    `max_age_s` is in seconds.
    """

    cluster: str
    host: str
    repository: str
    password_file: str
    folder: str
    restic: str = "restic"
    options: Sequence[str] = ()
    environment_file: str = ""
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
    keep: Mapping[str, int] = {}
    prunes: bool = False
    metrics: str = ""
    max_age_s: int = 0


def parts_of(settings: Settings) -> list[str]:
    """Return the parts that a host has."""
    has = {
        "slurm_state": settings.slurm_state,
        "accounting": settings.database,
        "grafana": settings.grafana,
        "directory": settings.directory,
    }
    return [part for part, where in has.items() if where]


def read_settings(path: Path) -> Settings:
    """Read what the role wrote.

    Raises:
        BackupError: the file is missing or was changed by hand into something else.
    """
    try:
        return Settings(**read_json(path))
    except TypeError as error:
        message = f"{path}: {error}; busbar provision backup writes it anew"
        raise BackupError(message) from error


def read_json(path: Path) -> dict[str, Any]:
    """Read a file that the role wrote.

    Raises:
        BackupError: it is missing or was changed by hand into something else.
    """
    try:
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        message = f"{path}: {error}; busbar provision backup writes it anew"
        raise BackupError(message) from error
    return found
