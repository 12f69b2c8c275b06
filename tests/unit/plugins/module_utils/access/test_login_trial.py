"""Tests of the script that reverts a login configuration change with only the programs of the host."""

from __future__ import annotations

import json
import os
import subprocess
from typing import TYPE_CHECKING

import pytest
from ansible_collections.busbar.cluster.plugins.modules.login_trial import read_note, restore_script
from executables import executable

if TYPE_CHECKING:
    from pathlib import Path


def test_previous_files_are_restored_and_new_files_removed(tmp_path: Path) -> None:
    old, new, note = (tmp_path / name for name in ("it's old", "new", "note"))
    text = "Match User 'x'\n\t$HOME `id` %s \\n é\n"
    old.write_text("changed")
    old.chmod(0o600)
    new.write_text("new")
    note.write_text("note")
    bin_path = tmp_path / "bin"
    bin_path.mkdir()
    for program in ("systemctl", "logger"):
        executable(bin_path / program, f'#!/bin/sh\necho {program} "$@" >>{tmp_path}/called\n')
    script = tmp_path / "restore"
    script.write_text(restore_script({str(old): text, str(new): None}, "ssh", [str(note), str(script)]))
    path = f"{bin_path}{os.pathsep}{os.environ['PATH']}"
    subprocess.run(["sh", str(script)], check=True, env={**os.environ, "PATH": path})
    assert (old.read_text(), old.stat().st_mode & 0o777) == (text, 0o600)
    assert not any(path.exists() for path in (new, note, script))
    assert (tmp_path / "called").read_text().splitlines()[-1] == "systemctl restart ssh"


def test_nothing_is_restarted_without_a_service() -> None:
    assert "systemctl" not in restore_script({"/etc/pam.d/sshd": "text"}, "", [])


def test_note_is_read_back() -> None:
    assert read_note(json.dumps({"/a": None, "/b": "text"})) == {"/a": None, "/b": "text"}
    with pytest.raises(ValueError, match="a JSON object"):
        read_note("[]")
