"""The file of exports: tried, written, applied, proved; and put back when it is refused."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any, ClassVar

import pytest
from ansible_collections.busbar.cluster.plugins.modules import nfs_exports

SOUND = "/shared 10.0.0.0/24(rw)\n"
OTHER = "/data 10.0.0.0/24(rw)\n"


class RefusalError(Exception):
    """What the module says when it fails."""


class FakeModule:
    """A host with exportfs: its table is what the file says, unless the file holds a word that it refuses."""

    def __init__(self, path: Path, *, check: bool = False, installed: bool = True, late: str = "") -> None:
        """Keep the file's path; `late` is a word that only the real run refuses, not the trial."""
        self.path, self.check_mode, self.installed, self.late = path, check, installed, late
        self.table = ""
        self.commands: list[str] = []

    def get_bin_path(self, name: str) -> str | None:
        """Return where a program is."""
        return f"/usr/sbin/{name}" if self.installed else None

    def run_command(self, command: list[str], **_options: object) -> tuple[int, str, str]:
        """Run exportfs, alone or in a trial."""
        self.commands.append(shlex.join(command[:2]))
        if command[0] == "unshare":
            text = "".join(file.read_text() for file in Path(command[-2]).iterdir())
            status, _, err = self.judged(text, "broken")
            return status, f"--- shown\n{text}", err
        if command[1] == "-s":
            return 0, self.table, ""
        text = self.path.read_text() if self.path.exists() else ""
        status, _, err = self.judged(text, self.late or "broken")
        self.table = "" if status else text
        return status, "", err

    @staticmethod
    def judged(text: str, word: str) -> tuple[int, str, str]:
        """Return what exportfs says of a text."""
        return (1, "", f'exportfs: unknown keyword "{word}"') if word in text else (0, "", "")

    def add_cleanup_file(self, name: str) -> None:
        """Forget it: the file is moved."""

    @staticmethod
    def atomic_move(source: str, target: str) -> None:
        """Replace a file."""
        Path(target).write_text(Path(source).read_text())
        Path(source).unlink()

    @staticmethod
    def fail_json(msg: str, **_: object) -> None:
        """End the module."""
        raise RefusalError(msg)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "exports.d" / "busbar.exports"


def keep(module: Any, content: str) -> tuple[bool, str | None, str]:  # noqa: ANN401 - stands in for AnsibleModule
    return nfs_exports.keep(module, module.path, content)


def test_written_applied_and_then_left_alone(path: Path) -> None:
    module = FakeModule(path)
    assert keep(module, SOUND) == (True, None, SOUND)
    assert path.read_text() == SOUND
    module.commands.clear()
    assert keep(module, SOUND) == (False, SOUND, SOUND)
    assert set(module.commands) == {"exportfs -s"}, "a second run applies nothing"


def test_what_the_trial_refuses_is_never_written(path: Path) -> None:
    module = FakeModule(path)
    keep(module, SOUND)
    module.commands.clear()
    with pytest.raises(RefusalError, match='not written, nothing is changed: exportfs: unknown keyword "broken"'):
        keep(module, SOUND + "/x 10.0.0.1(broken)\n")
    assert path.read_text() == SOUND
    assert module.table == SOUND
    assert "exportfs -ra" not in module.commands


def test_the_trial_sees_the_files_of_others(path: Path) -> None:
    module = FakeModule(path)
    path.parent.mkdir()
    (path.parent / "mine.exports").write_text("/mine 10.0.0.1(broken)\n")
    with pytest.raises(RefusalError, match="nothing is changed"):
        keep(module, SOUND)
    assert not path.exists()


def test_the_old_file_is_put_back_when_applying_fails(path: Path) -> None:
    module = FakeModule(path, late="unlucky")
    keep(module, SOUND)
    with pytest.raises(RefusalError, match="the old exports were put back"):
        keep(module, "/unlucky 10.0.0.1(rw)\n")
    assert path.read_text() == SOUND
    assert module.table == SOUND, "what was exported is exported again"


def test_a_table_that_lost_an_export_is_made_again(path: Path) -> None:
    module = FakeModule(path)
    keep(module, SOUND)
    module.table = ""
    assert keep(module, SOUND) == (True, SOUND, SOUND)


def test_nothing_to_export_removes_the_file(path: Path) -> None:
    module = FakeModule(path)
    keep(module, SOUND)
    assert keep(module, "")[0]
    assert not path.exists()
    assert not keep(module, "")[0]


@pytest.mark.parametrize(("installed", "before"), [(True, None), (False, None), (True, OTHER)])
def test_check_mode_changes_nothing(path: Path, before: str | None, *, installed: bool) -> None:
    if before:
        keep(FakeModule(path), before)
    changed, found, _ = keep(FakeModule(path, check=True, installed=installed), SOUND)
    assert changed
    assert found == before
    assert (path.read_text() if path.exists() else None) == before


def test_check_mode_does_not_miss_directories_that_are_still_to_be_made(tmp_path: Path) -> None:
    content = f"# head\n{tmp_path} \\\n    10.0.0.1(rw)\n{tmp_path}/new \\\n    10.0.0.1(rw)\n"
    assert nfs_exports.already_there(content) == f"# head\n{tmp_path}      10.0.0.1(rw)\n"


def test_without_the_server_it_fails(path: Path) -> None:
    with pytest.raises(RefusalError, match="install the NFS server first"):
        keep(FakeModule(path, installed=False), SOUND)


def test_a_name_that_cannot_be_resolved_is_an_error_although_exportfs_says_success() -> None:
    class Quiet:
        @staticmethod
        def run_command(*_: object, **__: object) -> tuple[int, str, str]:
            return 0, "", "exportfs: Failed to resolve nohost\n"

    assert nfs_exports.exportfs(Quiet(), "-ra")[0] == 1


def test_the_text_is_made_of_the_exports() -> None:
    class Given:
        """What the module is called with."""

        params: ClassVar[dict[str, Any]] = {
            "header": "# ours\n",
            "exports": [{"path": "/shared", "options": ["ro"]}],
            "clients": ["10.0.0.0/24"],
            "options": ["rw", "sync"],
        }

    assert nfs_exports.wanted_text(Given()) == "# ours\n/shared \\\n    10.0.0.0/24(sync,ro)\n"
