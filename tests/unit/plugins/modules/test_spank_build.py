"""The module that builds SPANK plugins: what a builder that turned hostile can make root do."""

from __future__ import annotations

import os
import pwd
from typing import TYPE_CHECKING, Any

from ansible_collections.busbar.cluster.plugins.modules import spank_build

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

PLUGIN: dict[str, Any] = {"name": "pyxis", "version": "0.20", "source": "/pyxis.tar", "sha256": "0" * 64}
INFO = {"slurm": "24.11.5", "architecture": "x86_64", "system": "debian13"}


class Module:
    """Does what the commands would do, as the builder would."""

    def __init__(self, folder: Path) -> None:
        """Keep where the victim lies."""
        self.params = {"info": INFO, "include_directory": "/usr/include"}
        self.victim = folder / "victim"
        self.victim.write_text("root's own")
        self.commands: list[list[str]] = []

    def run_command(self, command: list[str], encoding: str | None = "utf-8", **_: object) -> tuple[int, Any, Any]:
        """Make a library, or a link in place of one."""
        self.commands.append(command)
        assert command[:4] == ["runuser", "-u", "nobody", "--"]
        if command[4] == "mkdir":
            type(self.victim)(command[5]).mkdir()
        if command[4] == "make":
            (type(self.victim)(command[6]) / "pyxis.so").write_text("a library")
        return (0, "", "") if encoding else (0, b"a library", b"")

    def fail_json(self, msg: str, **_: object) -> None:
        """Fail."""
        raise AssertionError(msg)


def test_root_writes_through_no_link_of_the_builder_and_reads_as_he_would(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = Module(tmp_path)
    (tmp_path / "sources").mkdir()
    spank_build.archive_path(tmp_path, PLUGIN).write_text("the archive")
    given: list[Path] = []

    def hand_over(folder: Path, *_: object) -> None:
        given.append(folder)
        # The builder is quick: what he may write in, he writes in at once.
        (folder / "archive").unlink(missing_ok=True)
        (folder / "archive").symlink_to(module.victim)

    monkeypatch.setattr(os, "chown", hand_over)
    root = pwd.getpwuid(0)
    monkeypatch.setattr(pwd, "getpwnam", lambda _: root)
    monkeypatch.setattr(spank_build, "slurm_of_plugin", lambda _: INFO["slurm"])
    spank_build.build(module, tmp_path, PLUGIN)
    assert given
    assert module.victim.read_text() == "root's own"
    assert module.commands[-1][4:6] == ["cat", "--"]
    store = [path.read_bytes() for path in tmp_path.rglob("pyxis.so")]
    assert store == [b"a library"]
