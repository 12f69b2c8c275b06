"""A run of Ansible that is noted, kept, and executed once more in one go: on this machine, by Ansible itself."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.busbar.cluster.plugins.plugin_utils.last_run import (
    NotKeptError,
    forget,
    handed_over,
    keep,
    note_renewal,
    read,
    record_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

INTERPRETER = f"ansible_python_interpreter={sys.executable}"
TOP = Path(__file__).resolve().parents[4]
PLAY = """\
- hosts: localhost
  gather_facts: false
  tasks:
    - name: Write the file
      ansible.builtin.lineinfile: {path: "FOLDER/conf", line: secret word, create: true, mode: "0640"}
    - name: Read what is there
      ansible.builtin.command: cat FOLDER/state
      check_mode: false
      changed_when: false
    - name: Read a secret
      ansible.builtin.slurp: {src: "FOLDER/secret"}
      no_log: true
    - name: Look for the folder
      ansible.builtin.stat: {path: "FOLDER/folder"}
    - name: Wait for the folder
      ansible.builtin.wait_for: {path: "FOLDER/state", timeout: 5}
    - name: Make a folder
      ansible.builtin.file: {path: "FOLDER/folder", state: directory, mode: "0755"}
"""
CLOCK = """\
    - name: Ask the clock
      ansible.builtin.command: date +%s%N
      changed_when: false
"""
AGAIN = """\
- hosts: localhost
  gather_facts: false
  tasks:
    - name: Execute it once more
      busbar.cluster.replay: {record: "FOLDER/logs/last_run"}
"""


class Site:
    """A folder with a playbook that works on this machine."""

    def __init__(self, folder: Path) -> None:
        """Take the folder."""
        self.folder = folder
        self.record = folder / "logs/last_run"
        (folder / "state").write_text("1\n")
        (folder / "secret").write_text("word\n")

    def run(self, play: str, **environment: str) -> dict[str, Any]:
        """Run a play; returns what it put aside."""
        path = self.folder / "play.yml"
        path.write_text(play.replace("FOLDER", str(self.folder)))
        kept = {key: value for key, value in os.environ.items() if not key.startswith(("ANSIBLE_", "BUSBAR_"))}
        kept |= {"ANSIBLE_CONFIG": str(TOP / "ansible.cfg"), "ANSIBLE_STDOUT_CALLBACK": "ansible.builtin.json"}
        kept |= {"ANSIBLE_CALLBACKS_ENABLED": "busbar.cluster.preload", **environment}
        done = subprocess.run(
            ["ansible-playbook", "-i", "localhost,", "-c", "local", "-e", INTERPRETER, str(path)],
            check=False,
            capture_output=True,
            text=True,
            cwd=TOP,
            env=kept,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    def noted(self, play: str) -> Path:
        """Run a play and note it; returns where."""
        folder = self.folder / f"noted-{time.monotonic_ns()}"
        folder.mkdir()
        self.run(play, BUSBAR_RECORDING=str(folder))
        return folder

    def drift(self) -> str:
        """Return what the record finds now, by the module alone."""
        given = {"ANSIBLE_MODULE_ARGS": handed_over(self.record, "localhost")}
        done = subprocess.run(
            [sys.executable, "-m", "ansible_collections.busbar.cluster.plugins.modules.replay"],
            check=True,
            input=json.dumps(given),
            capture_output=True,
            text=True,
            cwd=TOP,
            env={**os.environ, "PYTHONPATH": str(TOP / ".collections")},
        )
        drift: str = json.loads(done.stdout)["drift"]
        return drift


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


@pytest.fixture(scope="module")
def noted(tmp_path_factory: pytest.TempPathFactory) -> Site:
    """One that was left as it is by the run that is noted, kept for all tests."""
    site = Site(tmp_path_factory.mktemp("site"))
    site.run(PLAY)
    keep(site.noted(PLAY), site.record, {"ended": 1})
    return site


@pytest.fixture
def kept(noted: Site, tmp_path: Path) -> Iterator[Site]:
    """The same for one test, which may change it by hand."""
    saved = tmp_path / "saved"
    subprocess.run(["cp", "-a", noted.folder, saved], check=True)
    yield noted
    shutil.rmtree(noted.folder)
    subprocess.run(["cp", "-a", saved, noted.folder], check=True)


def test_what_is_as_it_was_does_not_drift_and_is_not_changed(kept: Site) -> None:
    before = (kept.folder / "conf").stat()
    assert kept.drift() == ""
    found = kept.run(AGAIN)
    assert found["global_custom_stats"] == {"busbar_drift": {"localhost": ""}}
    assert found["stats"]["localhost"]["changed"] == 0
    assert (kept.folder / "conf").stat() == before


def _write(site: Site) -> None:
    (site.folder / "conf").write_text("another word\n")


def _mode(site: Site) -> None:
    (site.folder / "conf").chmod(0o644)


def _remove(site: Site) -> None:
    (site.folder / "conf").unlink()


def _state(site: Site) -> None:
    (site.folder / "state").write_text("2\n")


def _secret(site: Site) -> None:
    (site.folder / "secret").unlink()


def _folder(site: Site) -> None:
    (site.folder / "folder").rmdir()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (_write, "Write the file: would change something"),
        (_mode, "Write the file: would change something"),
        (_remove, "Write the file: would change something"),
        (_state, "Read what is there: answers otherwise"),
        (_secret, "Read a secret: fails"),
        (_folder, "Look for the folder: answers otherwise"),
    ],
)
def test_a_change_by_hand_is_named_by_the_task_that_would_undo_or_see_it(
    kept: Site, change: Callable[[Site], None], said: str
) -> None:
    change(kept)
    assert kept.drift().startswith(said)
    assert "/secret" not in kept.drift()


def test_what_check_mode_does_not_execute_is_never_taken_for_unchanged(site: Site) -> None:
    keep(site.noted(PLAY.partition("    -")[0] + CLOCK), site.record, {})
    assert site.drift() == "Ask the clock: cannot be looked at without doing it"


def test_a_record_is_for_its_owner_alone(kept: Site) -> None:
    assert kept.record.stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in kept.record.iterdir()} == {0o600}


def test_a_record_that_is_forgotten_is_gone(kept: Site) -> None:
    assert read(kept.record) == {"ended": 1, "hosts": ["localhost"]}
    forget(kept.record)
    forget(kept.record)
    assert read(kept.record) == {}
    assert not kept.record.exists()


def test_a_host_without_a_record_is_no_unchanged_one(kept: Site) -> None:
    with pytest.raises(FileNotFoundError):
        handed_over(kept.record, "gpu1")
    (kept.record / "host-localhost.json").unlink()
    found = kept.run(AGAIN)
    assert found["global_custom_stats"] == {"busbar_drift": {"localhost": "the last full run executed nothing here"}}


@pytest.mark.parametrize(
    ("task", "said"),
    [
        ("ansible.builtin.raw: 'true'", "localhost: Do it: it executes no module"),
        (
            "ansible.builtin.command: 'true'\n      async: 5\n      poll: 1",
            "localhost: Do it: it runs in the background",
        ),
    ],
)
def test_what_cannot_be_executed_in_one_go_leaves_no_record(site: Site, task: str, said: str) -> None:
    play = f"- hosts: localhost\n  gather_facts: false\n  tasks:\n    - name: Do it\n      {task}\n"
    noted = site.noted(play)
    with pytest.raises(NotKeptError, match=said):
        keep(noted, site.record, {})
    assert not site.record.exists()


def test_the_first_certificate_that_is_to_be_renewed_says_when_a_full_run_is_due(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    note_renewal(1000, 0)
    monkeypatch.setenv("BUSBAR_RECORDING", str(tmp_path))
    for end in (20 * 86400, 15 * 86400, 30 * 86400):
        note_renewal(end, 10)
    keep(tmp_path, tmp_path / "logs/last_run", {})
    assert read(tmp_path / "logs/last_run") == {"due": 5 * 86400, "hosts": []}


def test_the_record_is_beside_the_logs_of_the_site(tmp_path: Path) -> None:
    (tmp_path / "inventory").mkdir()
    assert record_of(tmp_path / "inventory") == tmp_path / "logs/last_run"
