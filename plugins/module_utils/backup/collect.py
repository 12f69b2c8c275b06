"""Collect the contents of a snapshot in a directory, with a manifest that detects damage."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
import sqlite3
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .programs import count_entries, database_bytes, dump_accounting, dump_directory, installed_release
from .settings import BackupError

if TYPE_CHECKING:
    from collections.abc import Callable

    from .settings import Settings

__all__ = [
    "DIRECTORY",
    "DUMP",
    "FORMAT",
    "GRAFANA",
    "MANIFEST",
    "STATE",
    "collect",
    "copy_state",
    "digest",
    "dump_database",
    "read_manifest",
]

FORMAT = 1
MANIFEST, STATE, DUMP, GRAFANA = "manifest.json", "slurm_state", "accounting.sql", "grafana.db"
DIRECTORY = "directory.ldif"
# slurmctld writes changed state every five seconds; copying takes much less time.
_TRIES = 5
_PAUSE_S = 1.0
_ROW = re.compile(rb"INSERT INTO `([^`]+)` ")
# mariadb-dump ends a complete dump with this line.
_END = b"-- Dump completed"


def collect(settings: Settings, folder: Path) -> dict[str, Any]:
    """Fill an empty directory with the parts of this host; write the manifest there and return it.

    Slurm's state is copied first, so that the later accounting dump includes all its jobs.

    Raises:
        BackupError: a part is missing, or cannot be read completely.
    """
    has_slurm = bool(settings.slurm_state or settings.database)
    release = installed_release() if has_slurm else ""
    if has_slurm and not release:
        message = "`scontrol --version` and `slurmdbd -V` print no Slurm version, which a restore needs"
        raise BackupError(message)
    manifest: dict[str, Any] = {
        "format": FORMAT,
        "cluster": settings.cluster,
        "host": settings.host,
        "made_at": int(time.time()),
        "slurm_version": release,
    }
    _refuse_full_disk(settings, folder)
    if settings.slurm_state:
        copy_state(Path(settings.slurm_state), folder / STATE)
    if settings.database:
        manifest["tables"] = dump_database(settings, folder / DUMP)
    if settings.grafana:
        copy_sqlite(Path(settings.grafana), folder / GRAFANA)
    if settings.directory:
        manifest["entries"] = save_directory(settings, folder / DIRECTORY)
    manifest["files"] = {
        str(path.relative_to(folder)): digest(path) for path in sorted(folder.rglob("*")) if path.is_file()
    }
    (folder / MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8")
    return manifest


def copy_state(source: Path, target: Path, sleep: Callable[[float], None] = time.sleep) -> None:
    """Copy slurmctld's state directory, which may change during the copy.

    slurmctld writes each file under another name and renames it, so a name may be missing for a moment
    (slurm/src/common/state_save.c). The copy is repeated until no file changes during it, at most five times. Each file
    of the last copy is complete, but the files may be from different moments.

    Raises:
        BackupError: the directory contains no slurmctld state.
    """
    for left in reversed(range(_TRIES)):
        before = _stamps(source)
        if not before:
            message = f"{source} contains no slurmctld state: compare the path with StateSaveLocation in slurm.conf"
            raise BackupError(message)
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir(mode=0o700)
        whole = _copy(source, target)
        if (whole and _stamps(source) == before) or not left:
            break
        sleep(_PAUSE_S)
    if not (target / "job_state").is_file():
        message = (
            f"{source}/job_state is missing: slurmctld saves its queue there with the first job. On a new cluster "
            "submit one (srun true) and repeat the backup; otherwise compare the path with StateSaveLocation"
        )
        raise BackupError(message)


def _stamps(source: Path) -> dict[str, tuple[int, int]]:
    """Return modification time (ns) and size of each directory entry by name."""
    found = {}
    with contextlib.suppress(OSError):
        for entry in os.scandir(source):
            with contextlib.suppress(OSError):
                stat = entry.stat(follow_symlinks=False)
                found[entry.name] = (stat.st_mtime_ns, stat.st_size)
    return found


def _copy(source: Path, target: Path) -> bool:
    """Copy a tree; return False if a file vanished during the copy."""
    whole = True
    for root, folders, names in os.walk(source):
        here = target / Path(root).relative_to(source)
        for name in folders:
            (here / name).mkdir(mode=0o700)
        for name in names:
            # slurmctld renames this file after it has written it completely.
            if name.endswith(".new"):
                continue
            try:
                shutil.copy2(Path(root) / name, here / name, follow_symlinks=False)
            except FileNotFoundError:
                whole = False
    return whole


def dump_database(settings: Settings, target: Path) -> dict[str, int]:
    """Dump the accounting database; return the number of rows of each table.

    Raises:
        BackupError: mariadb-dump failed, or the dump is truncated.
    """
    dump_accounting(settings, target)
    return count_rows(target)


def save_directory(settings: Settings, target: Path) -> int:
    """Dump the LDAP directory; return the number of entries.

    Raises:
        BackupError: slapcat failed, or the directory is empty.
    """
    dump_directory(settings, target)
    with target.open("rb") as file:
        entries = count_entries(file)
    if not entries:
        message = f"the directory of {settings.directory} has no entries: run busbar provision base, which creates them"
        raise BackupError(message)
    return entries


def count_rows(dump: Path) -> dict[str, int]:
    """Return the number of rows of each table in a dump with one row per line.

    Raises:
        BackupError: the dump is truncated.
    """
    rows: dict[str, int] = {}
    last = b""
    with dump.open("rb") as file:
        for line in file:
            found = _ROW.match(line)
            if found:
                name = found[1].decode()
                rows[name] = rows.get(name, 0) + 1
            elif line.startswith(b"CREATE TABLE `"):
                rows.setdefault(line.split(b"`")[1].decode(), 0)
            last = line if line.strip() else last
    if not last.startswith(_END):
        message = f"{dump.name} is truncated: it does not end with {_END.decode()!r}"
        raise BackupError(message)
    return rows


def copy_sqlite(source: Path, target: Path) -> None:
    """Copy a consistent state of an SQLite database that may be in use.

    Raises:
        BackupError: the database is missing or damaged.
    """
    try:
        with (
            contextlib.closing(sqlite3.connect(f"file:{source}?mode=ro", uri=True, timeout=30)) as there,
            contextlib.closing(sqlite3.connect(target)) as here,
        ):
            there.backup(here)
            fault = here.execute("PRAGMA integrity_check").fetchone()[0]
    except sqlite3.Error as error:
        message = f"{source}: {error}"
        raise BackupError(message) from error
    if fault != "ok":
        message = f"{source} is damaged: {fault}"
        raise BackupError(message)


def digest(path: Path) -> str:
    """Return the SHA-256 of a file in hexadecimal digits."""
    found = hashlib.sha256()
    with path.open("rb") as file:
        for block in iter(lambda: file.read(1 << 20), b""):
            found.update(block)
    return found.hexdigest()


def read_manifest(folder: Path) -> dict[str, Any]:
    """Return the manifest of a directory after verifying all files in it.

    Raises:
        BackupError: a file is missing or damaged, or the format is unknown.
    """
    try:
        manifest: dict[str, Any] = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        files: dict[str, str] = manifest["files"]
        form = manifest["format"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        message = f"its {MANIFEST} cannot be read: {error!r}"
        raise BackupError(message) from error
    if form != FORMAT:
        message = (
            f"unsupported format of its {MANIFEST} (found {form!r}, expected {FORMAT}): use the release that created it"
        )
        raise BackupError(message)
    for name, expected in files.items():
        path = folder / name
        if not path.is_file():
            message = f"{name} is missing"
            raise BackupError(message)
        if digest(path) != expected:
            message = f"the checksum of {name} differs from the manifest"
            raise BackupError(message)
    return manifest


def _refuse_full_disk(settings: Settings, folder: Path) -> None:
    """Raise BackupError if the disk has too little free space for the copies."""
    needed = sum(_size(Path(path)) for path in (settings.slurm_state, settings.grafana) if path)
    if settings.directory:
        needed += _allocated(Path(settings.directory_data))
    if settings.database:
        # A row in a dump takes about twice its size in the table.
        needed += 2 * database_bytes(settings)
    free = shutil.disk_usage(folder).free
    if needed > free:
        message = f"{folder} needs {needed >> 20} MiB for the copies and has {free >> 20} MiB free: free space there"
        raise BackupError(message)


def _allocated(folder: Path) -> int:
    """Return the allocated size of files in bytes; LDAP data files are sparse."""
    total = 0
    for item in folder.glob("*"):
        with contextlib.suppress(OSError):
            total += item.lstat().st_blocks * 512
    return total


def _size(path: Path) -> int:
    total = 0
    for item in [path, *path.rglob("*")]:
        with contextlib.suppress(OSError):
            total += item.lstat().st_size
    return total
