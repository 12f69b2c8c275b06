"""Directories are made, and what is in them is left alone."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import pytest
from ansible.module_utils.testing import patch_module_args
from ansible_collections.busbar.cluster.plugins.modules import directories

if TYPE_CHECKING:
    from pathlib import Path


def run(items: list[dict[str, Any]], capsys: pytest.CaptureFixture[str], *, check: bool = False) -> dict[str, Any]:
    with patch_module_args({"directories": items, "_ansible_check_mode": check}), pytest.raises(SystemExit):
        directories.main()
    return dict(json.loads(capsys.readouterr().out))


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o7777


def test_only_the_last_directory_gets_the_mode(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = tmp_path / "a" / "b" / "c"
    before = os.umask(0o077)
    try:
        result = run([{"path": str(place), "mode": "2770"}], capsys)
    finally:
        os.umask(before)
    assert result["changed_paths"] == [str(place)]
    assert (mode(place), mode(place.parent), mode(place.parent.parent)) == (0o2770, 0o755, 0o755)
    assert not run([{"path": str(place), "mode": "2770"}], capsys)["changed"]


def test_what_is_not_declared_is_left_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = tmp_path / "data"
    place.mkdir()
    (place / "file").touch()
    place.chmod(0o700)
    (place / "file").chmod(0o600)
    assert not run([{"path": str(place)}], capsys)["changed"]
    assert run([{"path": str(place), "mode": "0755"}], capsys)["changed"]
    assert (mode(place), mode(place / "file")) == (0o755, 0o600)


def test_check_mode_makes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result = run([{"path": str(tmp_path / "new"), "owner": "nobody-yet"}], capsys, check=True)
    assert result["changed"]
    assert result["diff"]["after"] == f"{tmp_path}/new\n"
    assert not (tmp_path / "new").exists()


def test_a_file_or_a_link_is_no_directory(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to(tmp_path)
    for name in ("file", "link"):
        assert "is not a directory" in run([{"path": str(tmp_path / name)}], capsys)["msg"]
