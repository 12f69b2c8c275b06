"""Tests of the backup program of a host by its command line: its records, its refusals, and an interrupted restore."""

from __future__ import annotations

import getpass
import json
import os
import sqlite3
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from ansible_collections.busbar.cluster.plugins.module_utils.backup import restore_parts
from ansible_collections.busbar.cluster.plugins.module_utils.backup.collect import digest
from ansible_collections.busbar.cluster.plugins.module_utils.backup.settings import Settings
from ansible_collections.busbar.cluster.roles.backup.files import backup as run
from executables import executable

if TYPE_CHECKING:
    from pathlib import Path

RESTIC = """#!/bin/sh
case $1 in
snapshots) echo '[{{"id": "aaaa1234", "time": "2026-11-23T02:30:11Z", "hostname": "ctl"}}]' ;;
restore) while [ "$1" != --target ]; do shift; done; mkdir -p "$2{folder}"; cp -r {here}/saved "$2{folder}/stage" ;;
esac
"""


class Host(NamedTuple):
    """A host with a Grafana and no Slurm, its folder and its configuration."""

    folder: Path
    grafana: Path
    configuration: Path

    def does(self, *words: str) -> int:
        """Run the program; return its exit status."""
        return run.main(words, self.configuration)

    def change(self, **options: object) -> None:
        """Change the configuration that the role wrote."""
        self.configuration.write_text(json.dumps(json.loads(self.configuration.read_text()) | options))


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Host:
    """Return a host with a snapshot of its Grafana in the repository."""
    folder, grafana = tmp_path / "work", tmp_path / "lib" / "grafana.db"
    restic = tmp_path / "restic"
    executable(restic, RESTIC.format(here=tmp_path, folder=folder))
    saved = tmp_path / "saved"
    saved.mkdir()
    database(saved / "grafana.db", "saved")
    manifest = {"format": 1, "cluster": "lab", "host": "ctl", "made_at": 1, "slurm_version": ""}
    files = {"grafana.db": digest(saved / "grafana.db")}
    (saved / "manifest.json").write_text(json.dumps({**manifest, "files": files}))
    settings = {
        "cluster": "lab",
        "host": "ctl",
        "repository": "/srv/repo",
        "folder": str(folder),
        "restic": str(restic),
        "grafana": str(grafana),
        "metrics": str(tmp_path / "busbar_backup.prom"),
    }
    configuration = tmp_path / "backup.json"
    configuration.write_text(json.dumps(settings))
    # Grafana's own user does not exist here.
    real = restore_parts.place_files
    monkeypatch.setattr(
        restore_parts,
        "place_files",
        lambda source, target, _owner, stamp: real(source, target, getpass.getuser(), stamp),
    )
    return Host(folder, grafana, configuration)


def database(path: Path, title: str) -> None:
    """Create Grafana's database with one dashboard."""
    path.parent.mkdir(exist_ok=True)
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE dashboard (title TEXT)")
        connection.execute("INSERT INTO dashboard VALUES (?)", (title,))
    connection.close()


def dashboard(path: Path) -> str:
    """Return the title of the dashboard."""
    with sqlite3.connect(path) as connection:
        found = connection.execute("SELECT title FROM dashboard").fetchone()[0]
    connection.close()
    return str(found)


def answer(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    """Return the output of the program."""
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_umask_is_private_only_during_the_run(host: Host) -> None:
    before = os.umask(0o022)
    try:
        assert host.does("list") == 0
        assert os.umask(0o022) == 0o022
    finally:
        os.umask(before)
    assert (host.folder / "lock").stat().st_mode & 0o077 == 0


def saves(host: Host, result: str = "success") -> int:
    """Run the steps of the unit; return the status of the first one."""
    status = host.does("collect")
    if not status:
        summary = {"message_type": "summary", "snapshot_id": "bbbb5678cc", "total_bytes_processed": 7}
        (host.folder / "output").write_text(f'created new cache\n{json.dumps(summary)}\n[{{"tags": null}}]\n')
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("SERVICE_RESULT", "exit-code" if status else result)
        assert host.does("note") == 0
    return status


def test_missing_path_of_the_site_fails_the_backup(host: Host, capsys: pytest.CaptureFixture[str]) -> None:
    database(host.grafana, "present")
    host.change(paths=[str(host.folder / "licences")], configurations=["/etc/no-such-daemon"])
    assert saves(host) == 1
    assert "backup_paths: " in capsys.readouterr().err
    metrics = host.configuration.with_name("busbar_backup.prom")
    assert "busbar_backup_last_run_failed 1" in metrics.read_text()
    (host.folder / "licences").mkdir()
    assert host.does("collect") == 0
    assert (host.folder / "paths").read_text() == f"{host.folder}/stage\n{host.folder}/licences\n"
    assert saves(host) == 0
    assert "busbar_backup_last_run_failed 0" in metrics.read_text()
    last = json.loads((host.folder / "last.json").read_text())
    assert (last["snapshot"], last["bytes"], last["files"]) == ("bbbb5678", 7, 1)
    assert sorted(path.name for path in host.folder.iterdir()) == ["last.json", "licences", "lock"]


def test_failed_snapshot_keeps_the_time_of_the_last_success(host: Host) -> None:
    database(host.grafana, "present")
    assert saves(host) == 0
    before = json.loads((host.folder / "last.json").read_text())
    saves(host, result="exit-code")
    after = json.loads((host.folder / "last.json").read_text())
    assert (after["failed"], after["success"], after["snapshot"]) == (1, before["success"], before["snapshot"])
    assert not (host.folder / "stage").exists()


def test_full_disk_is_reported_in_one_sentence(
    host: Host, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_arguments: object) -> None:
        raise OSError(28, "No space left on device", "/var/lib/busbar-backup/last.json")

    monkeypatch.setattr(run, "_keep", full)
    database(host.grafana, "present")
    assert host.does("collect") == 1
    assert capsys.readouterr().err.startswith("busbar-backup: [Errno 28] No space left on device")


def test_existing_data_is_refused_and_moved_aside_on_request(host: Host, capsys: pytest.CaptureFixture[str]) -> None:
    database(host.grafana, "present")
    assert host.does("fetch") == 0
    assert answer(capsys)["there"] == [f"Grafana's {host.grafana}"]
    assert host.does("place", "grafana") == 1
    assert "-e restore_replace=true" in capsys.readouterr().err
    assert dashboard(host.grafana) == "present"
    assert host.does("place", "grafana", "--replace") == 0
    assert dashboard(host.grafana) == "saved"
    [aside] = host.grafana.parent.glob("grafana.db.before-*")
    assert dashboard(aside) == "present"
    assert not (host.folder / "restored").exists()


def test_initial_database_of_a_new_grafana_is_replaced(host: Host) -> None:
    assert host.does("fetch") == 0
    database(host.grafana, "empty")
    assert host.does("place", "grafana") == 0
    assert dashboard(host.grafana) == "saved"


def test_interrupted_restore_continues(
    host: Host, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    database(host.grafana, "present")
    assert host.does("fetch") == 0
    with monkeypatch.context() as patched:
        patched.setattr(run, "place", lambda *_arguments: (_ for _ in ()).throw(OSError("the power is gone")))
        assert host.does("place", "grafana", "--replace") == 1
    capsys.readouterr()
    assert host.does("fetch") == 0
    found = answer(capsys)
    assert (found["there"], found["left"]) == ([], ["grafana"])
    assert host.does("place", "grafana") == 0
    assert dashboard(host.grafana) == "saved"
    capsys.readouterr()
    assert host.does("fetch") == 0
    assert answer(capsys)["left"] == []
    assert host.does("place", "grafana") == 0
    assert answer(capsys)["changed"] is False
    # The restored data is lost again.
    host.grafana.unlink()
    capsys.readouterr()
    assert host.does("fetch") == 0
    assert answer(capsys)["left"] == ["grafana"]
    assert host.does("place", "grafana") == 0
    assert dashboard(host.grafana) == "saved"


def test_database_of_a_stopped_mariadb_is_existing_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = Settings(
        "c", "ctl", "r", str(tmp_path), database="slurm_acct_db", database_socket=str(tmp_path / "socket")
    )
    monkeypatch.setattr(restore_parts, "DATABASES", tmp_path)
    assert restore_parts.existing_data(settings, "accounting") == ""
    (tmp_path / "slurm_acct_db").mkdir()
    assert restore_parts.existing_data(settings, "accounting") == f"the database {tmp_path}/slurm_acct_db"
