"""The record of what busbar changes on a host."""

from __future__ import annotations

import json
import stat
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.busbar.cluster.plugins.module_utils.common import host_record
from ansible_collections.busbar.cluster.plugins.module_utils.common.host_baseline import deeper, paths_below

if TYPE_CHECKING:
    from pathlib import Path


class FailedError(Exception):
    """What the module said."""


class Module(SimpleNamespace):
    """A module that only fails."""

    def fail_json(self, msg: str) -> None:
        """Raise what the module would say."""
        raise FailedError(msg)


@pytest.fixture
def record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "state" / "record"
    monkeypatch.setattr(host_record, "RECORD", folder)
    monkeypatch.setattr(host_record, "host_baseline", lambda _module, _folder: {"paths": []})
    monkeypatch.setattr(host_record, "EDITED", ())
    return folder


def changes(record: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((record / "changes.json").read_text())
    return found


def test_the_first_original_wins(record: Path, tmp_path: Path) -> None:
    module, file = Module(check_mode=False), tmp_path / "file"
    file.write_text("theirs")
    for text in ("ours", "newer", "newest"):
        host_record.note_files(module, {str(file): text})
        file.write_text(text)
    entry = changes(record)["paths"][str(file)]
    assert entry["was"]["kind"] == "file"
    assert len(entry["texts"]) == 2
    kept = host_record.Record(record).original(str(file))
    assert kept.read_text() == "theirs"
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert stat.S_IMODE(record.stat().st_mode) == 0o700


def test_missing_parents_are_noted(record: Path, tmp_path: Path) -> None:
    host_record.note_files(Module(check_mode=False), {str(tmp_path / "a/b/file"): "text"})
    found = changes(record)["paths"]
    assert [found[str(tmp_path / name)]["was"] for name in ("a", "a/b", "a/b/file")] == [None, None, None]
    assert str(tmp_path) not in found


def test_nothing_is_written_in_check_mode(record: Path, tmp_path: Path) -> None:
    module = Module(check_mode=True)
    host_record.note_files(module, {str(tmp_path / "file"): "text"})
    host_record.note_accounts(module, ["alice"], [])
    host_record.note_directories(module, [tmp_path / "x"])
    with host_record.packages_noted(module, ["apt-get", "install", "x"]):
        pass
    assert not record.exists()


def test_a_record_that_is_damaged_stops_the_change(record: Path, tmp_path: Path) -> None:
    record.mkdir(parents=True)
    (record / "changes.json").write_text("{")
    with pytest.raises(FailedError, match="is damaged"):
        host_record.note_files(Module(check_mode=False), {str(tmp_path / "file"): "text"})


def _packages(monkeypatch: pytest.MonkeyPatch, found: dict[str, tuple[str, bool]]) -> None:
    monkeypatch.setattr(host_record, "installed_packages", lambda _module: found)


def test_packages_of_a_transaction(record: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = Module(check_mode=False)
    _packages(monkeypatch, {"libc6": ("1", True), "timesyncd": ("1", False)})
    with host_record.packages_noted(module, ["apt-get", "-y", "install", "chrony"]):
        _packages(monkeypatch, {"libc6": ("2", True), "chrony": ("1", False), "libcap": ("1", True)})
    found = changes(record)
    assert found["packages"] == {"chrony": "manual", "libcap": "automatic"}
    assert found["upgraded"] == {"libc6": "1"}
    assert found["removed"] == {"timesyncd": "manual"}
    assert "pending" not in found


def test_what_others_install_after_a_killed_run_is_theirs(record: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = Module(check_mode=False)
    _packages(monkeypatch, {})
    with pytest.raises(KeyboardInterrupt), host_record.packages_noted(module, ["apt-get", "install", "chrony=4"]):
        raise KeyboardInterrupt
    assert changes(record)["pending"]
    _packages(monkeypatch, {"chrony": ("4", False), "libcap": ("1", True), "htop": ("1", False)})
    with host_record.packages_noted(module, ["apt-get", "install", "munge"]):
        pass
    assert changes(record)["packages"] == {"chrony": "manual", "libcap": "automatic"}


def test_who_provisions_again_does_not_finish_an_uninstallation(record: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_record, "installed_packages", lambda _module: {})
    begun = host_record.Record(record)
    begun.changes["going"] = ["chrony"]
    record.mkdir(parents=True, exist_ok=True)
    begun.save()
    with host_record.packages_noted(Module(check_mode=False), ["apt-get", "install", "chrony"]):
        pass
    assert host_record.Record(record).changes["going"] == []


def test_a_look_at_packages_is_no_change(record: Path) -> None:
    for command in (["apt-get", "update"], ["apt-get", "install", "--simulate", "x"], ["apt-mark", "unhold", "x"]):
        with host_record.packages_noted(Module(check_mode=False), command):
            pass
    assert not record.exists()


def test_baseline_lists_to_a_depth(tmp_path: Path) -> None:
    (tmp_path / "a/b/c").mkdir(parents=True)
    assert list(paths_below(str(tmp_path), 2)) == [str(tmp_path / "a"), str(tmp_path / "a/b")]
    assert [deeper(path) for path in ("/etc/a/b", "/var/cache/a", "/var/cache/a/b", "/usr/bin/x")] == [
        False,
        False,
        True,
        True,
    ]
