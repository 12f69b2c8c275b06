"""Tests of the host's private key: created once, readable by root and one group; the result has the public key."""

from __future__ import annotations

import grp
import os
import stat
from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.busbar.cluster.plugins.modules import tls_host_key
from module_run import module_result

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="gives a file to a group")


def _run(place: Path, capsys: pytest.CaptureFixture[str], *, check: bool = False, **other: object) -> dict[str, Any]:
    args = {"group": "mail", "_ansible_check_mode": check, **other}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tls_host_key, "DIRECTORY", place)
        return module_result(tls_host_key, capsys, **args)


def test_key_is_created_once_and_readable_by_the_group(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = tmp_path / "a" / "tls"
    first = _run(place, capsys)
    assert first["changed"]
    assert first["public_key"].startswith("ecdsa-sha2-nistp256 ")
    status = (place / "host.key").stat()
    assert (stat.S_IMODE(status.st_mode), status.st_uid) == (0o640, 0)
    assert grp.getgrgid(status.st_gid).gr_name == "mail"
    assert [path.name for path in place.iterdir()] == ["host.key"]
    (place / "host.crt").write_text("certificate\n")
    assert _run(place, capsys) == first | {"changed": False, "certificate": "certificate\n"}


def test_access_is_corrected(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _run(tmp_path, capsys)
    (tmp_path / "host.key").chmod(0o644)
    assert _run(tmp_path, capsys)["changed"]
    assert stat.S_IMODE((tmp_path / "host.key").stat().st_mode) == 0o640


def test_check_mode_creates_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    answer = _run(tmp_path / "tls", capsys, check=True)
    assert (answer["changed"], answer["public_key"], answer["certificate"]) == (True, "", "")
    assert list(tmp_path.iterdir()) == []
    answer = _run(tmp_path, capsys, check=True, group="busbar-nobody-has-it")
    assert answer["changed"]


def test_no_key_is_created_if_the_site_provides_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    answer = _run(tmp_path / "tls", capsys, make=False)
    assert (answer["changed"], answer["public_key"]) == (True, "")
    assert list((tmp_path / "tls").iterdir()) == []


def test_damaged_key_is_reported_with_the_remedy(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "host.key").write_text("damaged\n")
    answer = _run(tmp_path, capsys)
    assert answer["failed"]
    assert f"{tmp_path / 'host.key'} is not a usable key" in answer["msg"]
