"""Secrets are copied from the hosts only on request, into private files."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

import pytest
import yaml
from adopted_sites import FIXTURES
from busbar.cli import main
from executables import executable

if TYPE_CHECKING:
    from pathlib import Path

KEY = bytes(range(256)) * 4
# A stand-in for ssh that answers collect.sh and the commands that read secrets.
SSH = """#!/bin/sh
for word; do place=$word; [ "$word" = -- ] && shift && break; shift; done
script=$(cat)
section() { printf '@@ %s %s\\n' "$1" "$2"; base64; }
case $script in
base64*munge.key) [ -n "$KEY" ] && printf %s "$KEY" || { echo 'base64: munge.key: denied' >&2; exit 1; } ;;
sed*StoragePass*) printf '"s3cret word"\\n' | base64 ;;
*)
    section file /etc/slurm/slurm.conf <"$CONF"
    section file /etc/slurm/slurmdbd.conf <"$DBD"
    echo "$FOUND" | section command hostname
    echo '@@ end'
    ;;
esac
"""
CONF = """ClusterName=c
SlurmctldHost=head
AccountingStorageType=accounting_storage/slurmdbd
NodeName=n1
PartitionName=p Nodes=ALL
"""


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of a new site for a cluster behind the stand-in."""
    ssh = tmp_path / "bin/ssh"
    ssh.parent.mkdir()
    executable(ssh, SSH)
    for name, text in (("CONF", CONF), ("DBD", "StoragePass=\nStorageUser=slurm\n")):
        (tmp_path / name).write_text(text)
        monkeypatch.setenv(name, str(tmp_path / name))
    monkeypatch.setenv("KEY", base64.b64encode(KEY).decode())
    monkeypatch.setenv("FOUND", "front")
    monkeypatch.setenv("PATH", f"{ssh.parent}:/usr/bin:/bin")
    return tmp_path / "site"


def _options(site: Path) -> dict[str, object]:
    found: dict[str, object] = {}
    for path in (site / "inventory/group_vars/all").glob("*.yml"):
        found |= yaml.safe_load(path.read_text()) or {}
    return found


def test_nothing_is_imported_by_default(cluster: Path) -> None:
    assert main(["adopt", "cluster", str(cluster), "--controller", "head"]) == 0
    assert not (cluster / "secrets").exists()
    assert "slurm_database_password" not in _options(cluster)


def test_secrets_are_written_to_private_files_and_not_printed(
    cluster: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["adopt", "cluster", str(cluster), "--controller", "head", "--secrets"]) == 0
    key, password = (cluster / "secrets" / f"{name}.adopted" for name in ("munge.key", "slurm_database.password"))
    assert key.read_bytes() == KEY
    assert password.read_text() == "s3cret word"
    assert [path.stat().st_mode & 0o777 for path in (cluster / "secrets", key, password)] == [0o700, 0o600, 0o600]
    assert password.name in str(_options(cluster)["slurm_database_password"])
    said = "".join(capsys.readouterr())
    for path in (path for path in cluster.rglob("*") if path.is_file() and path.parent.name != "secrets"):
        said += path.read_text()
    assert "s3cret" not in said
    assert base64.b64encode(KEY).decode()[:40] not in said


def test_unreadable_secret_is_reported_and_nothing_is_written(
    cluster: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("KEY", "")
    assert main(["adopt", "cluster", str(cluster), "--controller", "head", "--secrets"]) == 2
    said = capsys.readouterr().err
    for word in ("--secrets", "head", "/etc/munge/munge.key", "denied"):
        assert word in said
    assert not cluster.exists()


def test_recording_contains_no_secrets(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recording = ["--from", str(FIXTURES / "slurm/lab-three-nodes")]
    assert main(["adopt", "cluster", str(tmp_path / "out"), "--controller", "alpha", "--secrets", *recording]) == 2
    assert "--from" in capsys.readouterr().err


def test_login_node_given_by_address_gets_its_name(cluster: Path) -> None:
    assert main(["adopt", "cluster", str(cluster), "--controller", "root@head", "--login", "root@10.0.0.7"]) == 0
    hosts = yaml.safe_load((cluster / "inventory/hosts.yml").read_text())["all"]
    assert hosts["children"]["slurm_login"] == {"hosts": {"front": None}}
    assert hosts["hosts"]["front"] == {"ansible_host": "10.0.0.7"}
