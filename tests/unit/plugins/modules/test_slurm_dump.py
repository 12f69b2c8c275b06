"""Tests of the database dump before an upgrade: slurmdbd must be stopped, and a complete dump replaces the last."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.busbar.cluster.plugins.module_utils.backup.settings import BackupError
from ansible_collections.busbar.cluster.plugins.modules import slurm_dump
from played_module import Ended, PlayedModule

if TYPE_CHECKING:
    from pathlib import Path


class Host:
    """An AnsibleModule that must not be called."""

    run_command = get_bin_path = None


def run(tmp_path: Path, patch: pytest.MonkeyPatch, *, active: str = "inactive", rows: int = 2) -> dict[str, Any]:
    def dump(_settings: object, target: Path) -> dict[str, int]:
        target.write_text("new")
        return {"job_table": 2}

    patch.setattr(slurm_dump, "output_or_empty", lambda _command: active)
    patch.setattr(slurm_dump, "database_bytes", lambda _settings: 100)
    patch.setattr(slurm_dump, "dump_database", dump)
    patch.setattr(slurm_dump, "table_rows", lambda _settings: {"job_table": rows})
    given = {"path": str(tmp_path / "a.sql"), "database": "slurm_acct_db", "socket": "/s", "state": "dumped"}
    module = PlayedModule(Host(), given, check_mode=False)
    patch.setattr(slurm_dump, "AnsibleModule", lambda **_: module)
    with pytest.raises(Ended) as ended:
        slurm_dump.main()
    return module.result or {"msg": str(ended.value)}


def test_complete_dump_replaces_the_previous_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.sql").write_text("former")
    assert (run(tmp_path, monkeypatch)["rows"], (tmp_path / "a.sql").read_text()) == (2, "new")


def test_missing_rows_keep_the_previous_dump(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.sql").write_text("former")
    assert "row counts differ" in run(tmp_path, monkeypatch, rows=3)["msg"]
    assert (tmp_path / "a.sql").read_text() == "former"


def test_running_slurmdbd_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "systemctl stop slurmdbd" in run(tmp_path, monkeypatch, active="active")["msg"]


def test_full_disk_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slurm_dump, "database_bytes", lambda _settings: 1 << 60)
    with pytest.raises(BackupError, match="MiB free"):
        slurm_dump.dumped(None, tmp_path / "a.sql")  # type: ignore[arg-type]
