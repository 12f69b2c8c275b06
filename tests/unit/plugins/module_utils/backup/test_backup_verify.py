"""Tests of verifying a snapshot beyond checksums: headers of Slurm's state files, and a trial import."""

from __future__ import annotations

import getpass
import tempfile
from typing import TYPE_CHECKING

import pytest
from ansible_collections.busbar.cluster.plugins.module_utils.backup import verify
from ansible_collections.busbar.cluster.plugins.module_utils.backup.settings import BackupError, Settings

if TYPE_CHECKING:
    from pathlib import Path

# Written by slurmctld 24.11.5.
HEAD = b"\x00\x00\x00\x11PROTOCOL_VERSION\x00\x2a\x00\x00\x00\x00\x00\x6b\x06\x9d\x65\x00"


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({"job_state": HEAD, "resv_state": HEAD, "clustername": b"lab|1295"}, ""),
        ({"node_state": HEAD}, "slurm_state/job_state is missing"),
        ({"job_state": b""}, "slurm_state/job_state is not slurmctld state"),
        ({"job_state": HEAD[:20]}, "slurm_state/job_state is not slurmctld state"),
        ({"job_state": HEAD, "node_state": b"\x00" * 64}, "slurm_state/node_state is not slurmctld state"),
    ],
)
def test_state_unreadable_by_slurmctld_is_reported(tmp_path: Path, files: dict[str, bytes], said: str) -> None:
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    found = verify.state_problem(tmp_path)
    assert found.startswith(said)
    assert bool(found) == bool(said)


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """Return the backup settings of a host with an LDAP server, with temporary directories outside of /var/lib."""
    real = tempfile.mkdtemp
    monkeypatch.setattr(tempfile, "mkdtemp", lambda **options: real(**{**options, "dir": tmp_path}))
    conf = str(tmp_path / "slapd.conf")
    return Settings("x", "ctl", "/r", "/p", str(tmp_path), directory=conf, directory_user=getpass.getuser())


def test_trial_import_does_not_use_the_active_database(settings: Settings, tmp_path: Path) -> None:
    (tmp_path / "slapd.conf").write_text("suffix x\ndirectory /var/lib/ldap\nmaxsize 1\n")
    with verify.scratch_directory(settings) as own:
        assert (tmp_path / own.directory).read_text() == f"suffix x\ndirectory {own.directory_data}\nmaxsize 1\n"
        assert own.directory_data.startswith(str(tmp_path))
    assert [item.name for item in tmp_path.iterdir()] == ["slapd.conf"]
    for text in ("suffix x\n", "directory /var/lib/ldap\ndirectory /srv/other\n"):
        (tmp_path / "slapd.conf").write_text(text)
        with pytest.raises(BackupError, match="data directories"), verify.scratch_directory(settings):
            pass
    assert [item.name for item in tmp_path.iterdir()] == ["slapd.conf"]


def test_missing_parts_of_a_snapshot_are_named(tmp_path: Path) -> None:
    restored, stage = tmp_path / "restored", tmp_path / "restored" / "stage"
    stage.mkdir(parents=True)
    (stage / "accounting.sql").touch()
    here = tmp_path / "slurm"
    here.mkdir()
    has = Settings(
        *("x", "ctl", "/r", "/p", str(tmp_path)),
        database="acct",
        grafana="/g.db",
        paths=["/opt/licences"],
        configurations=[str(here), "/etc/no-such-daemon"],
    )
    assert verify.missing_of(has, restored, stage) == ["grafana", "/opt/licences", str(here)]
