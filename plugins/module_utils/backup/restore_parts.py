"""Restore the parts of a snapshot for their daemons; previous data is renamed, never deleted."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..slurm.releases import path_to, release, window
from .collect import DIRECTORY, DUMP, GRAFANA, STATE, dump_database
from .programs import (
    directory_entries,
    load_accounting,
    load_directory,
    output_or_empty,
    query,
    table_names,
    table_rows,
)
from .settings import BackupError

if TYPE_CHECKING:
    from .settings import Settings

__all__ = ["PARTS", "compare_rows", "existing_data", "place", "release_problem"]

DATABASES = Path("/var/lib/mysql")
PARTS = {"slurm_state": "slurmctld", "accounting": "slurmdbd", "grafana": "grafana-server", "directory": "slapd"}


def existing_data(settings: Settings, part: str) -> str:
    """Describe the existing data that a part of a snapshot would replace, or return ''.

    Raises:
        BackupError: MariaDB does not answer.
    """
    if part == "slurm_state":
        state = Path(settings.slurm_state)
        return f"a Slurm queue in {state}" if (state / "job_state").exists() else ""
    if part == "accounting":
        if not Path(settings.database_socket).exists():
            # MariaDB does not run; the restore starts it.
            files = DATABASES / settings.database
            return f"the database {files}" if files.exists() else ""
        count = len(table_names(settings))
        return f"{count} tables in the database {settings.database}" if count else ""
    if part == "directory":
        data = Path(settings.directory_data)
        return f"an LDAP directory in {data}" if (data / "data.mdb").exists() else ""
    return f"Grafana's {settings.grafana}" if Path(settings.grafana).exists() else ""


def refuse_present(settings: Settings, part: str) -> None:
    """Refuse to restore a part over existing data.

    Raises:
        BackupError: this host already has data of that part.
    """
    there = existing_data(settings, part)
    if there:
        message = (
            f"{settings.host} already has {there}. Nothing was changed. To move the existing data aside, run "
            "again with -e restore_replace=true"
        )
        raise BackupError(message)


def place(settings: Settings, folder: Path, part: str, manifest: dict[str, Any]) -> str:
    """Restore one part while its daemon is stopped; return the path of the previous data.

    Args:
        settings: settings of this host.
        folder: restored and verified files.
        part: one of PARTS.
        manifest: manifest of the snapshot.

    Raises:
        BackupError: the daemon is running, or the result differs from the snapshot.
    """
    unit = PARTS[part]
    if output_or_empty(["systemctl", "is-active", unit]) in {"active", "activating", "reloading"}:
        message = f"{unit} is running, and its data cannot be replaced. Stop it first: systemctl stop {unit}"
        raise BackupError(message)
    stamp = time.strftime("%Y%m%dT%H%M%S")
    if part == "accounting":
        there = bool(existing_data(settings, part))
        return place_accounting(settings, folder / DUMP, manifest["tables"], stamp, there=there)
    if part == "slurm_state":
        return place_files(folder / STATE, Path(settings.slurm_state), settings.slurm_user, stamp)
    if part == "directory":
        return place_directory(settings, folder / DIRECTORY, manifest["entries"], stamp)
    return place_files(folder / GRAFANA, Path(settings.grafana), "grafana", stamp)


def place_files(source: Path, target: Path, owner: str, stamp: str) -> str:
    """Replace a file or a directory atomically; return the path of the previous one.

    Raises:
        BackupError: the target cannot be written.
    """
    fresh = target.with_name(f"{target.name}.restoring")
    aside = target.with_name(f"{target.name}.before-{stamp}")
    try:
        shutil.rmtree(fresh, ignore_errors=True)
        fresh.unlink(missing_ok=True)
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, fresh)
            for root, folders, names in os.walk(fresh):
                for name in [".", *folders, *names]:
                    shutil.chown(Path(root) / name, owner, owner)
            fresh.chmod(0o700)
        else:
            shutil.copy2(source, fresh)
            shutil.chown(fresh, owner, owner)
            fresh.chmod(0o640)
        moved = target.exists()
        if moved:
            target.rename(aside)
        fresh.rename(target)
    except (OSError, LookupError) as error:
        message = f"{target} cannot be written: {error}"
        raise BackupError(message) from error
    return str(aside) if moved else ""


def place_accounting(settings: Settings, dump: Path, tables: dict[str, int], stamp: str, *, there: bool) -> str:
    """Load the dump and compare the rows of each table; return the path of a dump of the previous database.

    Raises:
        BackupError: the dump cannot be loaded, or the row counts differ from the snapshot.
    """
    aside = ""
    if there:
        former = Path(settings.folder) / f"{settings.database}.before-{stamp}.sql"
        # Drop the database only after its dump has been checked.
        dump_database(settings, former)
        query(settings, f"DROP DATABASE `{settings.database}`")
        aside = str(former)
    load_accounting(settings, dump)
    compare_rows(table_rows(settings), tables)
    return aside


def place_directory(settings: Settings, dump: Path, entries: int, stamp: str) -> str:
    """Load the dump into an empty LDAP directory and count the entries; return the path of the previous data.

    Raises:
        BackupError: the dump cannot be loaded, or the count differs; the previous data was restored.
    """
    data = Path(settings.directory_data)
    aside = data.with_name(f"{data.name}.before-{stamp}")
    try:
        moved = data.exists() and any(data.iterdir())
        if moved:
            data.rename(aside)
        data.mkdir(mode=0o700, exist_ok=True)
        shutil.chown(data, settings.directory_user, settings.directory_user)
    except (OSError, LookupError) as error:
        message = f"{data} cannot be written: {error}"
        raise BackupError(message) from error
    try:
        load_directory(settings, dump)
        compare_rows({"entries": directory_entries(settings)}, {"entries": entries})
    except BackupError:
        shutil.rmtree(data)
        if moved:
            aside.rename(data)
        raise
    return str(aside) if moved else ""


def compare_rows(found: dict[str, int], expected: dict[str, int]) -> None:
    """Compare the row counts of all tables.

    Raises:
        BackupError: the counts differ.
    """
    differing = [
        f"{name}: {found.get(name, 'missing')} instead of {expected.get(name, 'none')}"
        for name in sorted(found.keys() | expected.keys())
        if found.get(name) != expected.get(name)
    ]
    if differing:
        message = f"row counts differ from the backup: {', '.join(differing[:5])}"
        raise BackupError(message)


def release_problem(saved: str, installed: str, offered: str) -> str:
    """Return why this host's Slurm release cannot read the saved state, or ''.

    A Slurm release reads its state files and those of a few older releases, but not those of newer ones
    (https://slurm.schedmd.com/upgrades.html).

    Args:
        saved: release that wrote the state, such as ``24.11.5``; empty without state.
        installed: installed release, or ''.
        offered: release that would be installed.
    """
    here = installed or offered
    if not saved:
        return ""
    if not here:
        return "cannot determine the Slurm version of this host: run apt-get update, or install Slurm first"
    whose = "installed here" if installed else "offered here"
    if release(saved) > release(here):
        return f"Slurm {saved} wrote the state, but {here} is {whose}: install {saved} or newer first"
    former = window(here)
    if release(saved) != release(here) and release(saved) not in map(release, former):
        known = ", ".join(former)
        return (
            f"Slurm {saved} wrote the state, but {here} is {whose}, which only reads state of {known}: "
            f"restore it with {path_to(saved, here)[0]} first, and upgrade from there"
        )
    return ""
