"""Tests of the module that writes the files rendered by the action plugin."""

from __future__ import annotations

import base64
import grp
import io
import json
import os
import pwd
import stat
import zipfile
import zlib
from typing import TYPE_CHECKING, Any

import pytest
from ansible.module_utils.testing import patch_module_args
from ansible_collections.busbar.cluster.plugins.modules import templates

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

OWN = {"owner": pwd.getpwuid(os.getuid()).pw_name, "group": grp.getgrgid(os.getgid()).gr_name}


@pytest.fixture(autouse=True)
def usual_umask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


def run(
    capsys: pytest.CaptureFixture[str], items: list[dict[str, Any]], *, check: bool = False, pending: Path | None = None
) -> tuple[dict[str, Any], bool]:
    args = {"files": [{**OWN, **item} for item in items], "_ansible_check_mode": check}
    args |= {"pending": str(pending)} if pending else {}
    with patch_module_args(args), pytest.raises(SystemExit) as stopped:
        templates.main()
    return json.loads(capsys.readouterr().out), stopped.value.code == 0


def test_files_are_written_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    items = [{"path": str(tmp_path / "new" / name), "content": f"{name}\n", "mode": "0640"} for name in "ab"]
    first, ok = run(capsys, items)
    assert ok
    assert first["changed_paths"] == [item["path"] for item in items]
    assert (tmp_path / "new" / "b").read_text() == "b\n"
    assert stat.S_IMODE((tmp_path / "new" / "a").stat().st_mode) == 0o640
    second, _ = run(capsys, items)
    assert (second["changed"], second["changed_paths"], second["diff"]) == (False, [], [])


def test_new_parent_directories_are_accessible_under_any_umask(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    os.umask(0o077)
    run(capsys, [{"path": str(tmp_path / "a/b/c"), "content": "", "mode": "0600"}])
    assert [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("a", "a/b")] == [0o755, 0o755]


def test_mode_is_corrected(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    items = [{"path": str(tmp_path / "a"), "content": "a", "mode": "0600"}]
    run(capsys, items)
    (tmp_path / "a").chmod(0o666)
    result, _ = run(capsys, items)
    assert result["changed"]
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o600


@pytest.mark.parametrize("present", [True, False])
def test_absent(tmp_path: Path, capsys: pytest.CaptureFixture[str], *, present: bool) -> None:
    path = tmp_path / "a"
    if present:
        path.write_text("a")
    result, _ = run(capsys, [{"path": str(path), "state": "absent"}])
    assert result["changed"] is present
    assert not path.exists()


def test_check_mode_reports_and_changes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "old").write_text("old")
    items = [
        {"path": str(tmp_path / "no" / "such" / "a"), "content": "a", "validate": "/no/such/program %s"},
        {"path": str(tmp_path / "old"), "state": "absent"},
    ]
    result, ok = run(capsys, items, check=True)
    assert ok
    assert result["changed_paths"] == [item["path"] for item in items]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["old"]


def test_one_refused_file_prevents_all_writes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    items = [
        {"path": str(tmp_path / "a"), "content": "a", "validate": "grep -q a %s"},
        {"path": str(tmp_path / "b"), "content": "b", "validate": "sh -c 'echo no good >&2; exit 1' %s"},
    ]
    result, ok = run(capsys, items)
    assert not ok
    assert "b was not written" in result["msg"]
    assert "no good" in result["msg"]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("item", [{"path": "relative", "content": ""}, {"path": "/tmp/without-content"}])  # noqa: S108
def test_invalid_item_is_refused(capsys: pytest.CaptureFixture[str], item: dict[str, Any]) -> None:
    result, ok = run(capsys, [item])
    assert not ok
    assert "must be absolute" in result["msg"]


def test_pending_files_are_reported_as_changed_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    note = tmp_path / "state" / "note"
    paths = [tmp_path / name for name in ("kept", "edited", "new", "gone")]
    for path in (paths[0], paths[1], paths[3]):
        path.write_text("old")
    texts = ["old", "first", "first", None]

    def items() -> list[dict[str, Any]]:
        return [
            {"path": str(path), "content": text} if text else {"path": str(path), "state": "absent"}
            for path, text in zip(paths, texts, strict=True)
        ]

    first, _ = run(capsys, items(), pending=note)
    assert first["changed_paths"] == [str(path) for path in paths[1:]]
    assert stat.S_IMODE(note.stat().st_mode) == 0o600
    again, _ = run(capsys, items(), pending=note)
    assert again["diff"] == first["diff"]
    texts[1] = "second"
    third, _ = run(capsys, items(), pending=note)
    texts_then = [(entry["before"], entry["after"]) for entry in third["diff"]]
    assert texts_then == [("old", "second"), ("", "first"), ("old", "")]
    note.unlink()
    assert run(capsys, items(), pending=note)[0]["changed"] is False
    assert not note.exists()


def test_check_mode_leaves_no_note(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(capsys, [{"path": str(tmp_path / "a"), "content": "a"}], check=True, pending=tmp_path / "note")
    assert not list(tmp_path.iterdir())


def test_damaged_note_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    note = tmp_path / "note"
    note.write_text("{")
    result, ok = run(capsys, [{"path": str(tmp_path / "a"), "content": "a"}], pending=note)
    assert not ok
    assert str(note) in result["msg"]
    assert not (tmp_path / "a").exists()


def test_diffs_omit_secrets(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "secret"
    path.write_text("hidden1")
    written, _ = run(capsys, [{"path": str(path), "content": "hidden2", "hidden": True}])
    gone, _ = run(capsys, [{"path": str(path), "state": "absent", "hidden": True}])
    assert (written["changed"], gone["changed"]) == (True, True)
    for result in (written, gone):
        assert "hidden" not in json.dumps(result["diff"])
        assert result["diff"][0]["before"] == "(not shown)\n"
    assert gone["diff"][0]["after"] == ""


@pytest.fixture
def moments(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[int]]:
    """Record the mode of each path after each change, to find moments at which other users could read it."""
    seen: dict[str, list[int]] = {}

    def watched(name: str) -> None:
        real = getattr(os, name)

        def call(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
            done = real(*args, **kwargs)
            for path in args[:2]:
                if isinstance(path, (str, bytes)) and os.path.isfile(path):  # noqa: PTH113 - Ansible passes bytes
                    mode = stat.S_IMODE(os.stat(path).st_mode)  # noqa: PTH116
                    seen.setdefault(os.path.basename(os.fsdecode(path)), []).append(mode)  # noqa: PTH119
            return done

        monkeypatch.setattr(os, name, call)

    for name in ("rename", "chmod", "lchmod") if hasattr(os, "lchmod") else ("rename", "chmod"):
        watched(name)
    return seen


def test_secret_is_never_readable_by_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], moments: dict[str, list[int]]
) -> None:
    note = tmp_path / "state" / "web.pending"
    loose = tmp_path / "loose.key"
    loose.write_text("old secret")
    loose.chmod(0o644)
    items = [
        {"path": str(tmp_path / "new.key"), "content": "secret", "mode": "0400"},
        {"path": str(loose), "content": "new secret", "mode": "0600"},
    ]
    moments.clear()
    _, ok = run(capsys, items, pending=note)
    assert ok
    assert "old secret" in note.read_text()
    assert {"new.key", "loose.key", "web.pending"} <= moments.keys()
    assert {name: [f"{mode:04o}" for mode in modes if mode & 0o077] for name, modes in moments.items()} == {
        name: [] for name in moments
    }


def test_public_file_is_readable_by_all(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = os.umask(0o022)
    run(capsys, [{"path": str(tmp_path / "a"), "content": "a"}])
    assert os.umask(before) == 0o022
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o644


def packed(**members: str) -> tuple[bytes, str]:
    """Return a program, and its encoding as sent by the action plugin."""
    stream = io.BytesIO()
    stream.write(b"#!/usr/bin/python3\n")
    with zipfile.ZipFile(stream, "w") as archive:
        for name, text in members.items():
            archive.writestr(zipfile.ZipInfo(f"{name}.py"), text)
    return stream.getvalue(), base64.b64encode(zlib.compress(stream.getvalue())).decode()


def test_program_is_written_unchanged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data, sent = packed(main="\xff", other="")
    item = {"path": str(tmp_path / "tool"), "packed": sent, "mode": "0755"}
    run(capsys, [item], check=True)
    assert not (tmp_path / "tool").exists()
    run(capsys, [item])
    assert (tmp_path / "tool").read_bytes() == data
    assert stat.S_IMODE((tmp_path / "tool").stat().st_mode) == 0o755
    assert run(capsys, [item])[0]["changed"] is False


def test_diff_of_a_program_lists_its_members(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, note = tmp_path / "tool", tmp_path / "note"
    path.write_text("a script of an earlier version\n")
    first, _ = run(capsys, [{"path": str(path), "packed": packed(a="1", b="22")[1]}], pending=note)
    note.unlink()
    second, _ = run(capsys, [{"path": str(path), "packed": packed(a="1", b="333")[1]}], pending=note)
    third, _ = run(capsys, [{"path": str(path), "packed": packed(a="1", b="333")[1]}], pending=note)
    assert first["diff"][0]["before"] == "a script of an earlier version\n"
    before, after = (second["diff"][0][key].splitlines() for key in ("before", "after"))
    assert first["diff"][0]["after"].splitlines() == before
    assert before[0] == after[0]
    assert (before[1].split(",")[0], after[1].split(",")[0]) == ("b.py: 2 bytes", "b.py: 3 bytes")
    assert (third["changed"], third["diff"]) == (True, second["diff"])


def test_directory_of_an_earlier_version_is_removed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "old/part").mkdir(parents=True)
    (tmp_path / "old/part/file").write_text("x")
    items = [{"path": str(tmp_path / "new"), "content": "x"}, {"path": str(tmp_path / "old"), "state": "absent"}]
    planned, _ = run(capsys, items, check=True)
    assert (tmp_path / "old/part/file").exists()
    done, _ = run(capsys, items)
    assert planned["changed_paths"] == done["changed_paths"] == [item["path"] for item in items]
    assert not (tmp_path / "old").exists()
    assert run(capsys, items)[0]["changed"] is False


def test_target_of_a_link_is_not_removed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "kept").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "kept")
    _, ok = run(capsys, [{"path": str(tmp_path / "link"), "state": "absent"}])
    assert (ok, (tmp_path / "kept").is_dir()) == (False, True)
