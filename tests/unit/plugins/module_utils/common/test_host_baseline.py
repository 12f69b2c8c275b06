"""Tests of the record of a host before the first change, and of the files that busbar replaces later."""

from __future__ import annotations

import hashlib
import json
import stat
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ansible_collections.busbar.cluster.plugins.module_utils.common import baseline


class FailedError(Exception):
    """Raised by fail_json with its message."""


class Module(SimpleNamespace):
    """An AnsibleModule that runs `cp` and `sync`, on a host without package manager and systemd."""

    def __init__(self, *, check_mode: bool = False) -> None:
        """Set check mode."""
        super().__init__(check_mode=check_mode, broken=False)

    def get_bin_path(self, _name: str) -> None:
        """Find no program."""

    def run_command(self, words: list[str], **_: object) -> tuple[int, str, str]:
        """Run a copy; other programs print nothing."""
        if self.broken:
            return 1, "", "No space left on device"
        if words[0] == "cp":
            # Preserving owners needs root.
            words = ["cp", "--recursive", "--preserve=mode,links", *words[3:]]
            subprocess.run(words, check=False, capture_output=True)
        return 0, "", ""

    def fail_json(self, msg: str) -> None:
        """Raise the message."""
        raise FailedError(msg)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "busbar/baseline"
    monkeypatch.setattr(baseline, "BASELINE", folder)
    monkeypatch.setattr(baseline, "_OLDER", ())
    monkeypatch.setattr(baseline, "SHARED", (str(tmp_path / "hosts"),))
    return folder


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def test_baseline_is_taken_once_and_without_password_hashes(folder: Path) -> None:
    baseline.take_baseline(Module())
    found = json.loads((folder / "host.json").read_text())
    assert found["users"]["root"] == 0
    assert found["older"] == []
    assert (folder / "files/etc/passwd").read_bytes() == Path("/etc/passwd").read_bytes()
    assert not (folder / "files/etc/shadow").exists()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    (folder / "host.json").write_text("{}")
    baseline.take_baseline(Module())
    assert (folder / "host.json").read_text() == "{}"


def test_interrupted_baseline_is_taken_again(folder: Path) -> None:
    half = folder.with_name("baseline.new")
    (half / "files").mkdir(parents=True)
    (half / "files/rest").touch()
    baseline.take_baseline(Module())
    assert (folder / "host.json").exists()
    assert not (folder / "files/rest").exists()
    assert not half.exists()


def test_failed_baseline_prevents_changes(folder: Path) -> None:
    module = Module()
    module.broken = True
    with pytest.raises(FailedError, match="No space left on device"):
        baseline.take_baseline(module)
    assert not folder.exists()


def test_first_original_is_kept_and_each_hash_recorded(folder: Path, tmp_path: Path) -> None:
    module, file = Module(), tmp_path / "file"
    file.write_text("theirs")
    for text in ("ours", "newer"):
        baseline.before_write(module, {str(file): text})
        file.write_text(text)
    baseline.before_write(module, {str(file): None, str(tmp_path / "other"): b"bytes"})
    assert (folder / "files" / str(file).lstrip("/")).read_text() == "theirs"
    assert baseline.read_written() == {
        str(file): [digest("ours"), digest("newer"), "absent"],
        str(tmp_path / "other"): [digest("bytes")],
    }


def test_file_created_by_busbar_is_not_an_original(folder: Path, tmp_path: Path) -> None:
    module, file = Module(), tmp_path / "file"
    for text in ("ours", "newer"):
        baseline.before_write(module, {str(file): text})
        file.write_text(text)
    assert not (folder / "files" / str(file).lstrip("/")).exists()


def test_last_text_of_a_shared_file_is_saved(folder: Path, tmp_path: Path) -> None:
    for text in ("first", "last"):
        baseline.before_write(Module(), {str(tmp_path / "hosts"): text})
    assert (folder / "last/hosts").read_text() == "last"


def test_nothing_is_written_in_check_mode(folder: Path, tmp_path: Path) -> None:
    module = Module(check_mode=True)
    baseline.take_baseline(module)
    baseline.before_write(module, {str(tmp_path / "hosts"): "text"})
    baseline.before_making(module, "directory", tmp_path / "x")
    assert baseline.before_packages(module, ["apt-get", "install", "x"]) == ["apt-get", "install", "x"]
    assert not folder.parent.exists()


def test_transactions_are_marked_and_holds_recorded(folder: Path) -> None:
    module = Module()
    command = baseline.before_packages(module, ["apt-get", "-y", "install", "chrony"])
    assert command == ["apt-get", "-o", f"Dir::Log::History={baseline.HISTORY}", "-y", "install", "chrony"]
    assert baseline.before_packages(module, ["dnf", "-y", "install", "chrony"])[1] == "--comment=busbar"
    assert baseline.before_packages(module, ["apt-mark", "hold", "slurmd"]) == ["apt-mark", "hold", "slurmd"]
    assert baseline.read_written() == {"slurmd": ["hold"]}
    assert folder.is_dir()


@pytest.mark.parametrize(("verb", "left"), [("install", False), ("update", True)])
def test_installation_clears_an_interrupted_uninstallation(folder: Path, verb: str, *, left: bool) -> None:
    baseline.take_baseline(Module())
    (folder / "going").write_text("{}")
    baseline.before_packages(Module(), ["apt-get", verb])
    assert (folder / "going").exists() is left


@pytest.mark.parametrize(
    ("beside", "signs"),
    [
        (["kept"], []),
        (["kept", "upgrade_slurm", "baseline.new"], []),
        (["kept", "spank"], ["spank"]),
        (["record"],) * 2,
    ],
)
def test_leftovers_of_an_uninstallation_are_ignored(folder: Path, beside: list[str], signs: list[str]) -> None:
    for name in beside:
        (folder.parent / name).mkdir(parents=True)
    top = str(folder.parent)
    assert [path for path in baseline.signs_of_busbar() if path.startswith(top)] == [f"{top}/{name}" for name in signs]


def test_transactions_of_dnf_are_counted() -> None:
    module: Any = SimpleNamespace(
        get_bin_path=lambda name: name if name == "dnf" else None,
        run_command=lambda _words: (
            0,
            "ID     | Command line | Date\n----\n    12 | install x  | 2026\n     1 | | 2026\n",
            "",
        ),
    )
    assert baseline.dnf_transactions(module) == ["12", "1"]
