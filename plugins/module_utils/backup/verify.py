"""Verify a snapshot by a test restore into a temporary directory, MariaDB and LDAP directory."""

from __future__ import annotations

import contextlib
import pwd
import re
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .collect import DIRECTORY, DUMP, GRAFANA, STATE, copy_sqlite, read_manifest
from .programs import (
    answer,
    directory_entries,
    installed_release,
    load_accounting,
    load_directory,
    offered_release,
    table_names,
    table_rows,
)
from .restore_parts import compare_rows, release_problem
from .settings import BackupError, parts_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .repository import Repository, Snapshot
    from .settings import Settings

__all__ = ["fetch", "state_problem", "verify"]

_STARTS_WITHIN_S = 120.0
_STOPS_WITHIN_S = 60.0
# State files of slurmctld. Each begins with (slurm/src/slurmctld/job_mgr.c, dump_all_job_state) the length of a string,
# the string, and the protocol version.
_STATE_FILES = ("job_state", "node_state", "part_state", "resv_state", "trigger_state")
_STATE_HEAD = re.compile(rb"\x00\x00\x00\x11PROTOCOL_VERSION\x00..", re.DOTALL)
_HELD_AS = {"slurm_state": STATE, "accounting": DUMP, "grafana": GRAFANA, "directory": DIRECTORY}


def fetch(repository: Repository, snapshot: Snapshot, target: Path) -> tuple[Path, dict[str, Any]]:
    """Restore a snapshot below a directory; return the path of its parts, and its manifest.

    Raises:
        BackupError: the snapshot is damaged, from another cluster, or written by an incompatible Slurm release.
    """
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(mode=0o700, parents=True)
    repository.restore(snapshot, target)
    settings = repository.settings
    stage = target / stage_of(settings).relative_to("/")
    try:
        manifest = read_manifest(stage)
    except BackupError as error:
        message = (
            f"snapshot {snapshot.id[:8]} is damaged: {error}. Nothing was changed. List other snapshots: "
            "busbar-backup list"
        )
        raise BackupError(message) from error
    if manifest["cluster"] != settings.cluster:
        message = (
            f"snapshot {snapshot.id[:8]} is from another cluster (found {manifest['cluster']!r}, "
            f"expected {settings.cluster!r}, cluster_name). Nothing was changed"
        )
        raise BackupError(message)
    fault = release_problem(manifest["slurm_version"], installed_release(), offered_release())
    if not fault and (stage / STATE).is_dir():
        fault = state_problem(stage / STATE)
    if fault:
        message = f"snapshot {snapshot.id[:8]}: {fault}. Nothing was changed"
        raise BackupError(message)
    return stage, manifest


def state_problem(folder: Path) -> str:
    """Return why slurmctld could not start with the saved queue, or ''.

    Args:
        folder: copy of StateSaveLocation.
    """
    for name in _STATE_FILES:
        path = folder / name
        if not path.is_file():
            # The other files exist only if they have content.
            if name == "job_state":
                return f"{STATE}/{name} is missing: the queue was not saved"
        elif not _STATE_HEAD.match(path.read_bytes()):
            return f"{STATE}/{name} is not slurmctld state: it does not begin with a protocol version"
    return ""


def stage_of(settings: Settings) -> Path:
    """Return the directory in which the parts of a snapshot are collected."""
    return Path(settings.folder) / "stage"


def verify(repository: Repository, snapshot: Snapshot, *, data: bool) -> dict[str, Any]:
    """Restore a snapshot to temporary locations, verify it, and remove the restored copy.

    Args:
        repository: repository of the snapshot.
        snapshot: snapshot to verify.
        data: whether restic also reads all data of the repository, not only of this snapshot.

    Returns:
        The parts in the snapshot, and the verified counts: ``files``, ``tables``, ``rows`` and ``entries``.

    Raises:
        BackupError: the snapshot is damaged or incomplete.
    """
    repository.check(data=data)
    settings = repository.settings
    folder = Path(settings.folder) / "verify"
    try:
        stage, manifest = fetch(repository, snapshot, folder)
        missing = missing_of(settings, folder, stage)
        if missing:
            message = (
                f"snapshot {snapshot.id[:8]} does not contain {', '.join(missing)} of this host. "
                "Create a new snapshot: busbar provision backup"
            )
            raise BackupError(message)
        tables: dict[str, int] = manifest.get("tables", {})
        if tables:
            with scratch_server(settings) as own:
                load_accounting(own, stage / DUMP)
                compare_rows(table_rows(own), tables)
        entries: int = manifest.get("entries", 0)
        if entries:
            with scratch_directory(settings) as own:
                load_directory(own, stage / DIRECTORY)
                compare_rows({"entries": directory_entries(own)}, {"entries": entries})
        if (stage / GRAFANA).is_file():
            copy_sqlite(stage / GRAFANA, folder / "checked.db")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return {
        "parts": [part for part in _HELD_AS if part in parts_of(settings)],
        "made_at": manifest["made_at"],
        "slurm_version": manifest["slurm_version"],
        "files": len(manifest["files"]),
        "tables": len(tables),
        "rows": sum(tables.values()),
        "entries": entries,
    }


def missing_of(settings: Settings, folder: Path, stage: Path) -> list[str]:
    """Return the parts and paths of this host that are missing from a restored snapshot."""
    parts = [part for part in parts_of(settings) if not (stage / _HELD_AS[part]).exists()]
    paths = [*settings.paths, *(path for path in settings.configurations if Path(path).exists())]
    return parts + [path for path in paths if not (folder / path.lstrip("/")).exists()]


@contextlib.contextmanager
def scratch_folder(user: str) -> Iterator[Path]:
    """Provide a temporary directory, owned by a daemon's user, below /var/lib, which has enough space."""
    place = Path(tempfile.mkdtemp(prefix="busbar-verify-", dir="/var/lib"))
    try:
        shutil.chown(place, user, user)
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)


@contextlib.contextmanager
def scratch_directory(settings: Settings) -> Iterator[Settings]:
    """Create an empty LDAP directory with the schemas and access rules of this host, without contacting slapd.

    Raises:
        BackupError: the configuration of slapd cannot be read, or does not set its data directory.
    """
    with scratch_folder(settings.directory_user) as place:
        data, configuration = place / "data", place / "slapd.conf"
        try:
            written = Path(settings.directory).read_text(encoding="utf-8")
            text, changed = re.subn(r"(?m)^directory\s.*$", f"directory {data}", written)
            data.mkdir(mode=0o700)
            configuration.write_text(text, encoding="utf-8")
            for path in (data, configuration):
                shutil.chown(path, settings.directory_user, settings.directory_user)
        except (OSError, LookupError) as error:
            message = f"{settings.directory}: {error}"
            raise BackupError(message) from error
        # Otherwise the dump would be loaded into the production directory.
        if changed != 1:
            message = f"{settings.directory} sets {changed} data directories (expected 1). Nothing was loaded"
            raise BackupError(message)
        yield settings._replace(directory=str(configuration), directory_data=str(data))


@contextlib.contextmanager
def scratch_server(settings: Settings) -> Iterator[Settings]:
    """Run a temporary MariaDB with a separate directory and socket and without a port.

    Raises:
        BackupError: MariaDB does not start.
    """
    user = pwd.getpwnam("mysql").pw_name
    with scratch_folder(user) as place, contextlib.ExitStack() as ends:
        data, socket, log = place / "data", place / "socket", place / "log"
        answer(
            [
                "mariadb-install-db",
                "--no-defaults",
                f"--user={user}",
                f"--datadir={data}",
                "--auth-root-authentication-method=socket",
                "--skip-test-db",
            ]
        )
        with log.open("wb") as file:
            server = subprocess.Popen(  # noqa: S603 - fixed arguments
                [
                    shutil.which("mariadbd", path="/usr/sbin:/usr/libexec") or "mariadbd",
                    "--no-defaults",
                    f"--user={user}",
                    f"--datadir={data}",
                    f"--socket={socket}",
                    f"--pid-file={place / 'pid'}",
                    "--skip-networking",
                    "--innodb-flush-log-at-trx-commit=0",
                ],
                stdout=file,
                stderr=file,
            )
        ends.callback(_stop, server)
        own = settings._replace(database_socket=str(socket))
        _wait_for_answer(own, server, log)
        yield own


def _stop(server: subprocess.Popen[bytes]) -> None:
    server.terminate()
    try:
        server.wait(_STOPS_WITHIN_S)
    except subprocess.TimeoutExpired:
        server.kill()
        server.wait()


def _wait_for_answer(settings: Settings, server: subprocess.Popen[bytes], log: Path) -> None:
    end = time.monotonic() + _STARTS_WITHIN_S
    while True:
        try:
            table_names(settings)
        except BackupError as error:
            if server.poll() is not None or time.monotonic() > end:
                log_end = log.read_text(encoding="utf-8", errors="replace").strip()[-600:]
                message = f"the temporary MariaDB for the verification does not start: {log_end or error}"
                raise BackupError(message) from error
            time.sleep(0.2)
        else:
            return
