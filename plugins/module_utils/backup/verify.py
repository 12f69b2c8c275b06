"""Proves a snapshot by a restore that disturbs nobody: into a folder, and into a MariaDB of its own."""

from __future__ import annotations

import contextlib
import pwd
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .collect import DUMP, read_manifest
from .place import compare_rows
from .programs import answer, load_from, table_names, table_rows
from .settings import BackupError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .repository import Repository, Snapshot
    from .settings import Settings

__all__ = ["fetch", "verify"]

_STARTS_WITHIN_S = 120.0
_STOPS_WITHIN_S = 60.0


def fetch(repository: Repository, snapshot: Snapshot, target: Path) -> tuple[Path, dict[str, Any]]:
    """Restore a snapshot below a folder; return where its parts are, and its manifest.

    Raises:
        BackupError: it is damaged, or not of this cluster and host.
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
            f"snapshot {snapshot.id[:8]} is damaged: {error}. Nothing was changed; busbar-backup list shows others"
        )
        raise BackupError(message) from error
    if manifest["cluster"] != settings.cluster:
        message = (
            f"snapshot {snapshot.id[:8]} is of the cluster {manifest['cluster']!r}, this one is {settings.cluster!r} "
            "(cluster_name). Nothing was changed"
        )
        raise BackupError(message)
    return stage, manifest


def stage_of(settings: Settings) -> Path:
    """Where the parts of a snapshot are put together."""
    return Path(settings.folder) / "stage"


def verify(repository: Repository, snapshot: Snapshot, *, data: bool) -> dict[str, Any]:
    """Restore a snapshot into scratch places, compare, and clear them away.

    Args:
        repository: where it is.
        snapshot: which one.
        data: whether restic reads all data of the repository as well, not those of this snapshot alone.

    Returns:
        ``files`` and ``rows``: how many were compared.

    Raises:
        BackupError: something is damaged or differs.
    """
    repository.check(data=data)
    folder = Path(repository.settings.folder) / "verify"
    try:
        stage, manifest = fetch(repository, snapshot, folder)
        tables: dict[str, int] = manifest.get("tables", {})
        if tables:
            with scratch_server(repository.settings) as settings:
                load_from(settings, stage / DUMP)
                compare_rows(table_rows(settings), tables)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return {"files": len(manifest["files"]), "rows": sum(tables.values()), "made_at": manifest["made_at"]}


@contextlib.contextmanager
def scratch_server(settings: Settings) -> Iterator[Settings]:
    """Run a MariaDB with a folder and a socket of its own and no port; the one that is in use is not asked.

    Raises:
        BackupError: it does not come up.
    """
    user = pwd.getpwnam("mysql").pw_name
    # Beside the server's own data, where its user may go and where there is room for them.
    place = Path(tempfile.mkdtemp(prefix="busbar-verify-", dir="/var/lib"))
    log = place / "log"
    server = None
    try:
        shutil.chown(place, user, user)
        data, socket = place / "data", place / "socket"
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
            server = subprocess.Popen(  # noqa: S603 - no word of it is from outside
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
        own = settings._replace(database_socket=str(socket))
        _wait_for_answer(own, server, log)
        yield own
    finally:
        if server is not None:
            server.terminate()
            try:
                server.wait(_STOPS_WITHIN_S)
            except subprocess.TimeoutExpired:
                server.kill()
                server.wait()
        shutil.rmtree(place, ignore_errors=True)


def _wait_for_answer(settings: Settings, server: subprocess.Popen[bytes], log: Path) -> None:
    end = time.monotonic() + _STARTS_WITHIN_S
    while True:
        try:
            table_names(settings)
        except BackupError as error:
            if server.poll() is not None or time.monotonic() > end:
                said = log.read_text(encoding="utf-8", errors="replace").strip()[-600:]
                message = f"a MariaDB for the comparison does not come up: {said or error}"
                raise BackupError(message) from error
            time.sleep(0.2)
        else:
            return
