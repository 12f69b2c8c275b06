"""Tests of the LDAP directory in a snapshot, with fake slapd tools that print recorded output."""

from __future__ import annotations

import getpass
from typing import TYPE_CHECKING

import pytest
from ansible_collections.busbar.cluster.plugins.module_utils.backup import programs
from ansible_collections.busbar.cluster.plugins.module_utils.backup.collect import collect, save_directory
from ansible_collections.busbar.cluster.plugins.module_utils.backup.restore_parts import existing_data, place_directory
from ansible_collections.busbar.cluster.plugins.module_utils.backup.settings import BackupError, Settings
from executables import executable

if TYPE_CHECKING:
    from pathlib import Path

LDIF = "dn: dc=x\no: x\n\ndn: uid=erin,dc=x\nuid: erin\nuserPassword:: e0FSR09OMn0=\n\n"


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """Return the backup settings of a host with an LDAP server."""
    data = tmp_path / "ldap"
    data.mkdir()
    (data / "data.mdb").write_text(LDIF)
    # Only root can use the real runuser.
    own = {"runuser": 'shift 3; exec "$@"'}
    tools = own | {"slapcat": f"cat {data}/data.mdb", "slapadd": f"cat >{data}/data.mdb"}
    for name, text in tools.items():
        executable(tmp_path / name, f"#!/bin/sh\n{text}\n")
    monkeypatch.setattr(programs, "_slapd_command", lambda tool, _settings: [str(tmp_path / tool)])
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    me = getpass.getuser()
    conf = str(tmp_path / "slapd.conf")
    return Settings("x", "ctl", "/r", "/p", str(tmp_path), directory=conf, directory_data=str(data), directory_user=me)


def test_snapshot_contains_the_directory(settings: Settings, tmp_path: Path) -> None:
    stage = tmp_path / "stage"
    stage.mkdir()
    manifest = collect(settings, stage)
    assert manifest["entries"] == 2
    assert manifest["files"].keys() == {"directory.ldif"}
    saved = stage / "directory.ldif"
    assert (saved.read_text(), saved.stat().st_mode & 0o777) == (LDIF, 0o600)


def test_empty_directory_is_refused(settings: Settings, tmp_path: Path) -> None:
    (tmp_path / "ldap" / "data.mdb").write_text("")
    with pytest.raises(BackupError, match="has no entries"):
        save_directory(settings, tmp_path / "saved")


def test_existing_data_is_moved_aside(settings: Settings, tmp_path: Path) -> None:
    dump = tmp_path / "saved.ldif"
    dump.write_text(LDIF)
    (tmp_path / "ldap" / "data.mdb").write_text("dn: dc=other\n")
    assert existing_data(settings, "directory").startswith("an LDAP directory in")
    aside = place_directory(settings, dump, 2, "now")
    assert aside == str(tmp_path / "ldap.before-now")
    assert (tmp_path / "ldap" / "data.mdb").read_text() == LDIF
    assert (tmp_path / "ldap.before-now" / "data.mdb").read_text() == "dn: dc=other\n"
    assert (tmp_path / "ldap").stat().st_mode & 0o777 == 0o700


def test_a_new_machine_has_nothing_to_move(settings: Settings, tmp_path: Path) -> None:
    dump = tmp_path / "saved.ldif"
    dump.write_text(LDIF)
    (tmp_path / "ldap" / "data.mdb").unlink()
    assert existing_data(settings, "directory") == ""
    assert place_directory(settings, dump, 2, "now") == ""


def test_incomplete_restore_is_reverted(settings: Settings, tmp_path: Path) -> None:
    dump = tmp_path / "saved.ldif"
    dump.write_text(LDIF.partition("\n\n")[0])
    with pytest.raises(BackupError, match="entries: 1 instead of 2"):
        place_directory(settings, dump, 2, "now")
    assert (tmp_path / "ldap" / "data.mdb").read_text() == LDIF
    (tmp_path / "slapadd").write_text("#!/bin/sh\necho 'slapadd: line 1: no such object' >&2; exit 1\n")
    with pytest.raises(BackupError, match="no such object"):
        place_directory(settings, dump, 2, "now")
    assert (tmp_path / "ldap" / "data.mdb").read_text() == LDIF
