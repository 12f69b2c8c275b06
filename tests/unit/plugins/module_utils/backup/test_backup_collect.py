"""Tests that the files of a snapshot are complete and that damage to a snapshot is detected."""

from __future__ import annotations

import contextlib
import json
import shutil
import sqlite3
from typing import TYPE_CHECKING

import pytest
from ansible_collections.busbar.cluster.plugins.module_utils.backup.collect import (
    copy_sqlite,
    copy_state,
    count_rows,
    digest,
    read_manifest,
)
from ansible_collections.busbar.cluster.plugins.module_utils.backup.settings import BackupError, read_settings

if TYPE_CHECKING:
    from pathlib import Path

DUMP = """\
-- MariaDB dump 10.19
CREATE DATABASE /*!32312 IF NOT EXISTS*/ `slurm_acct_db`;
CREATE TABLE `acct_table` (
  `name` tinytext NOT NULL
);
INSERT INTO `acct_table` VALUES
(1,'root');
INSERT INTO `acct_table` VALUES (2,'x\\nINSERT INTO `user_table` VALUES (1);');
CREATE TABLE `user_table` (
  `name` tinytext NOT NULL
);
-- Dump completed on 2026-11-23  2:30:00
"""


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """Create a StateSaveLocation of slurmctld."""
    folder = tmp_path / "slurmctld"
    (folder / "hash.3" / "job.13").mkdir(parents=True)
    (folder / "job_state").write_text("queue")
    (folder / "job_state.new").write_text("half of a que")
    (folder / "hash.3" / "job.13" / "script").write_text("#!/bin/sh")
    return folder


def test_state_is_copied_without_temporary_files(state: Path, tmp_path: Path) -> None:
    copy_state(state, tmp_path / "copy")
    found = {str(path.relative_to(tmp_path / "copy")) for path in (tmp_path / "copy").rglob("*") if path.is_file()}
    assert found == {"job_state", "hash.3/job.13/script"}


def test_state_that_changes_during_the_copy_is_copied_again(
    state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = shutil.copy2
    pauses: list[float] = []

    def copy(source: Path, target: Path, **options: bool) -> None:
        real(source, target, **options)
        if not pauses and source.name == "job_state":
            (state / "job_state").write_text("queue with one job more")

    monkeypatch.setattr(shutil, "copy2", copy)
    copy_state(state, tmp_path / "copy", sleep=pauses.append)
    assert len(pauses) == 1
    assert (tmp_path / "copy" / "job_state").read_text() == "queue with one job more"


def test_constantly_changing_state_is_copied_after_the_retries(
    state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, count = shutil.copy2, iter(range(100))

    def copy(source: Path, target: Path, **options: bool) -> None:
        real(source, target, **options)
        (state / "job_state").write_text("x" * next(count))

    monkeypatch.setattr(shutil, "copy2", copy)
    pauses: list[float] = []
    copy_state(state, tmp_path / "copy", sleep=pauses.append)
    assert (tmp_path / "copy" / "job_state").is_file()
    assert len(pauses) == 4


def test_directory_without_state_is_refused(state: Path, tmp_path: Path) -> None:
    with pytest.raises(BackupError, match="contains no slurmctld state"):
        copy_state(tmp_path / "elsewhere", tmp_path / "copy")
    (state / "job_state").unlink()
    with pytest.raises(BackupError, match=r"job_state is missing.*srun true.*StateSaveLocation"):
        copy_state(state, tmp_path / "copy", sleep=lambda _seconds: None)


def test_rows_are_counted_by_table(tmp_path: Path) -> None:
    dump = tmp_path / "accounting.sql"
    dump.write_text(DUMP)
    assert count_rows(dump) == {"acct_table": 2, "user_table": 0}


@pytest.mark.parametrize("lines", [0, 3, 8, 11])
def test_truncated_dump_is_refused(lines: int, tmp_path: Path) -> None:
    dump = tmp_path / "accounting.sql"
    dump.write_text("".join(DUMP.splitlines(keepends=True)[:lines]))
    with pytest.raises(BackupError, match=r"accounting\.sql is truncated"):
        count_rows(dump)


def test_database_in_use_is_copied_consistently(tmp_path: Path) -> None:
    source, target = tmp_path / "grafana.db", tmp_path / "copy.db"
    with contextlib.closing(sqlite3.connect(source)) as writer:
        writer.execute("PRAGMA journal_mode=WAL")
        writer.execute("CREATE TABLE dashboard (title TEXT)")
        writer.execute("INSERT INTO dashboard VALUES ('mine')")
        writer.commit()
        writer.execute("INSERT INTO dashboard VALUES ('not yet')")
        copy_sqlite(source, target)
    with contextlib.closing(sqlite3.connect(target)) as reader:
        assert reader.execute("SELECT title FROM dashboard").fetchall() == [("mine",)]


@pytest.mark.parametrize("text", [None, "no database at all" * 100])
def test_an_invalid_database_is_refused(text: str | None, tmp_path: Path) -> None:
    source = tmp_path / "grafana.db"
    if text:
        source.write_text(text)
    with pytest.raises(BackupError, match=r"grafana\.db"):
        copy_sqlite(source, tmp_path / "copy.db")


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    """Return a directory as restored from a snapshot."""
    (tmp_path / "accounting.sql").write_text(DUMP)
    manifest = {"format": 1, "cluster": "lab", "files": {"accounting.sql": digest(tmp_path / "accounting.sql")}}
    (tmp_path / "manifest.json").write_text(json.dumps(manifest))
    return tmp_path


def test_manifest_is_read_back(saved: Path) -> None:
    assert read_manifest(saved)["cluster"] == "lab"


def test_damaged_snapshot_is_refused(saved: Path) -> None:
    dump, manifest = saved / "accounting.sql", saved / "manifest.json"
    dump.write_text(DUMP.replace("root", "toor"))
    with pytest.raises(BackupError, match=r"checksum of accounting\.sql differs"):
        read_manifest(saved)
    dump.unlink()
    with pytest.raises(BackupError, match=r"accounting\.sql is missing"):
        read_manifest(saved)
    manifest.write_text(manifest.read_text().replace('"format": 1', '"format": 2'))
    with pytest.raises(BackupError, match="found 2, expected 1"):
        read_manifest(saved)
    manifest.write_text(manifest.read_text()[:-5])
    with pytest.raises(BackupError, match=r"manifest\.json cannot be read"):
        read_manifest(saved)


def test_invalid_settings_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "backup.json"
    for text in ("{", '{"cluster": "lab"}', '{"colour": 1}'):
        path.write_text(text)
        with pytest.raises(BackupError, match=r"backup\.json: .*busbar provision backup"):
            read_settings(path)
