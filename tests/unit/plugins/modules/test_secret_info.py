"""Tests of a host's secrets, which are recognised by the files that this collection writes."""

from __future__ import annotations

import secrets
import time
from pathlib import Path

import pytest
import yaml
from ansible_collections.busbar.cluster.plugins.modules import secret_info
from ansible_collections.busbar.cluster.plugins.plugin_utils.access.tls_certificate import (
    authority_certificate,
    make_authority,
)
from module_run import module_result

TOP = Path(__file__).resolve().parents[4]
KNOWN = yaml.safe_load((TOP / "roles/preflight/vars/main.yml").read_text())["__preflight_secrets_known"]


def _held(name: str, path: Path, capsys: pytest.CaptureFixture[str]) -> bool:
    files = {name: {"path": str(path), "pattern": KNOWN[name]["file"]["pattern"]}}
    answer = module_result(secret_info, capsys, files=files)
    assert not answer.get("failed"), answer
    return bool(answer["held"] == [name])


@pytest.mark.parametrize(
    ("content", "held"),
    [
        (secrets.token_urlsafe(128).encode(), True),
        (secrets.token_urlsafe(24).encode() + b"\n", True),
        (secrets.token_urlsafe(24).encode()[:9], False),
        (b"", False),
        # A key from mungekey of the distribution package.
        (b"\xff" + secrets.token_bytes(127), False),
        (b"two words of an administrator who wrote a note", False),
        (None, False),
    ],
    ids=["long", "short with line end", "too short", "empty", "binary", "note", "none"],
)
def test_munge_key_of_the_cluster_is_distinguished_from_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes | None, *, held: bool
) -> None:
    path = tmp_path / "munge.key"
    if content is not None:
        path.write_bytes(content)
    assert _held("munge.key", path, capsys) is held


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("slurm_database.password", "DbdHost=ctl\nStoragePass=secret\n"),
        ("ssh_ca", "# made by busbar\nHostCertificate /etc/ssh/ssh_host_ed25519_key-cert.pub\n"),
        ("monitoring.password", "tls_server_config: {}\nbasic_auth_users:\n    prometheus: $2b$06$x\n"),
        ("monitoring.salt", "basic_auth_users:\n    prometheus: $2b$06$x\n"),
        ("grafana_admin.password", "secret"),
        ("grafana_secret.key", "secret"),
    ],
)
def test_derived_file_shows_that_the_host_has_the_secret(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, text: str
) -> None:
    path = tmp_path / "file"
    path.write_text(text)
    assert _held(name, path, capsys)
    path.write_text("")
    assert not _held(name, path, capsys)


def test_generated_ca_certificate_is_distinguished_from_a_site_certificate(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "ca.crt"
    path.write_text(authority_certificate(make_authority("lab", int(time.time()))))
    assert _held("tls_ca", path, capsys)
    text = path.read_text()
    path.write_text(text.replace("BEGIN CERTIFICATE", "BEGIN NOTHING"))
    assert not _held("tls_ca", path, capsys)


def test_directory_is_not_a_secret(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert not _held("munge.key", tmp_path, capsys)
