"""Tests of the program that syncs groups of the directory to accounting, without LDAP and sacctmgr."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from ansible_collections.busbar.cluster.plugins.module_utils.slurm.account_groups import Step
from ansible_collections.busbar.cluster.roles.slurm.files.account_groups import (
    SyncError,
    apply_steps,
    main,
    managed_entries,
    metrics_text,
    read_directory,
    read_made,
)

if TYPE_CHECKING:
    from pathlib import Path

SSSD = """
[sssd]
domains = busbar
[domain/busbar]
ldap_uri = ldaps://127.0.0.1:1, ldaps://127.0.0.1:2
ldap_search_base = dc=example,dc=org?sub?
ldap_schema = AD
ldap_default_bind_dn = cn=reader
ldap_default_authtok = 100%secret
ldap_tls_cacert = /ca.crt
ldap_id_use_start_tls = True
min_id = 5000
"""


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """Return a folder with the files of the role and of sssd."""
    (tmp_path / "sssd.conf").write_text(SSSD, encoding="utf-8")
    settings = {
        "cluster": "c",
        "groups": [{"group": "physics", "account": "physics"}],
        "declared": [],
        "max_removals": 10,
        "folder": str(tmp_path / "state"),
        "sssd_config": str(tmp_path / "sssd.conf"),
    }
    (tmp_path / "settings.json").write_text(json.dumps(settings), encoding="utf-8")
    return tmp_path


def test_directory_settings_are_read_from_sssd(site: Path) -> None:
    directory = read_directory(site / "sssd.conf")
    assert (directory.base, directory.schema, directory.min_id) == ("dc=example,dc=org", "ad", 5000)
    seen = [(one.uri, one.dn, one.password, one.ca_file, one.start_tls) for one in directory.connections]
    login = ("cn=reader", "100%secret", "/ca.crt", True)
    assert seen == [("ldaps://127.0.0.1:1", *login), ("ldaps://127.0.0.1:2", *login)]


@pytest.mark.parametrize("text", [None, "", "[domain/other]\nldap_uri = x", "[domain/busbar]\nldap_uri = x", "no ini"])
def test_sssd_without_a_directory_is_refused(tmp_path: Path, text: str | None) -> None:
    if text is not None:
        (tmp_path / "sssd.conf").write_text(text, encoding="utf-8")
    with pytest.raises(SyncError, match=r"cannot read the LDAP settings in .*busbar provision base --tags sssd"):
        read_directory(tmp_path / "sssd.conf")


def test_unreachable_directory_is_a_failed_run_in_the_metrics(site: Path, capsys: pytest.CaptureFixture[str]) -> None:
    state = site / "state"
    state.mkdir()
    (state / "last.json").write_text(json.dumps({"success": 5, "refused": 1}), encoding="utf-8")
    assert main(["--dry-run"], site / "settings.json") == 1
    assert not (state / "busbar_account_groups.prom").exists()
    assert main([], site / "settings.json") == 1
    said = capsys.readouterr().err
    assert "the directory does not answer (" in said
    assert "100%secret" not in said
    text = (state / "busbar_account_groups.prom").read_text(encoding="utf-8")
    assert "\nbusbar_account_groups_last_run_failed 1\n" in text
    assert "\nbusbar_account_groups_last_run_refused 0\n" in text
    assert "\nbusbar_account_groups_last_success_timestamp_seconds 5\n" in text


def test_metrics_of_the_first_run() -> None:
    lines = [line for line in metrics_text({"run": 1.5e9, "members": 3}).splitlines() if not line.startswith("#")]
    assert "busbar_account_groups_last_run_timestamp_seconds 1500000000" in lines
    assert "busbar_account_groups_members 3" in lines


@pytest.mark.parametrize("text", ["{", "[1]", '{"a": 1}', '{"associations": [1], "rights": []}'])
def test_damaged_list_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "made.json"
    assert read_made(path) == (set(), set())
    path.write_text(text, encoding="utf-8")
    with pytest.raises(SyncError, match=r"made\.json cannot be read"):
        read_made(path)


def test_failed_changes_are_retried() -> None:
    assert managed_entries({"joined"}, {"left"}, {"joined", "left"}) == {"left"}
    assert managed_entries({"joined"}, {"left"}, set()) == {"joined"}


def test_missing_sacctmgr_is_a_failed_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    steps = [Step(("physics", name), [["add", "user", name]], f"{name} gets it") for name in ("erin", "frank")]
    assert apply_steps(steps) == steps
    said = capsys.readouterr()
    assert said.out == ""
    assert "erin gets it: `sacctmgr -i` does not answer" in said.err
