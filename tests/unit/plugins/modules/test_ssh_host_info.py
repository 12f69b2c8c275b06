"""Tests of the module's facts about a host's SSH configuration."""

from __future__ import annotations

import pwd
from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.busbar.cluster.plugins.modules import ssh_host_info
from module_run import module_result

if TYPE_CHECKING:
    from pathlib import Path


def _read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    args = {"key_file": str(tmp_path / "key"), "key_directory": str(tmp_path / "keys")}
    return module_result(ssh_host_info, capsys, **args)


def test_public_keys_are_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    user = pwd.struct_passwd(("admin", "x", 1000, 1000, "", str(tmp_path), "/bin/sh"))
    monkeypatch.setattr(ssh_host_info, "login_user", lambda: user)
    (tmp_path / "key.pub").write_text("ssh-ed25519 AAAA root@gpu1\n")
    first = _read(tmp_path, capsys)
    assert (first["public_key"], first["certificate"]) == ("ssh-ed25519 AAAA root@gpu1", "")
    assert (first["user"], first["key_login"]) == ("admin", False)
    (tmp_path / "key-cert.pub").write_text("certificate\n")
    (tmp_path / "keys").mkdir()
    (tmp_path / "keys" / "admin").write_text("ssh-ed25519 BBBB\n")
    second = _read(tmp_path, capsys)
    assert (second["certificate"], second["key_login"]) == ("certificate", True)


def test_missing_host_key_is_reported_with_the_remedy(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "run `ssh-keygen -A` on this host" in _read(tmp_path, capsys)["msg"]


@pytest.mark.parametrize(
    ("text", "has"), [("", False), ("# only a comment\n\n", False), ("# mine\nssh-ed25519 AAAA\n", True)]
)
def test_authorized_keys(tmp_path: Path, text: str, *, has: bool) -> None:
    (tmp_path / "keys").write_text(text)
    assert ssh_host_info.has_keys(tmp_path / "keys") is has
    assert ssh_host_info.has_keys(tmp_path / "gone") is False


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("OpenSSH_10.0p2 Debian-7, OpenSSL 3.5.1", "10.0"),
        ("OpenSSH_9.2p1 Debian-2+deb12u6", "9.2"),
        ("OpenSSH_for_Windows_8.1p1", "0.0"),
        ("", "0.0"),
    ],
)
def test_version(text: str, version: str) -> None:
    assert ssh_host_info.openssh_version(text) == version


@pytest.mark.parametrize(
    ("private", "remedy"), [(False, "ssh-keygen -A"), (True, "ssh-keygen -y -f {key} > {key}.pub")]
)
def test_missing_public_key_has_its_own_remedy(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], *, private: bool, remedy: str
) -> None:
    key = tmp_path / "key"
    if private:
        key.write_text("private")
    answer = _read(tmp_path, capsys)
    assert answer["failed"]
    assert f"host key {key}.pub not found" in answer["msg"]
    assert remedy.format(key=key) in answer["msg"]
