"""Tests of detached validations."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from busbar.cli import main
from busbar.errors import UsageError
from busbar.run import detached
from busbar.run.detached import detach, find, site_runs_folder, user_runs_folder

PROGRAM = "import sys; from busbar.cli import main; sys.exit(main(sys.argv[1:]))"
# A validation of no hosts whose only play runs until a file exists.
PLAY = """
- hosts: localhost
  connection: local
  gather_facts: false
  tasks:
    - ansible.builtin.wait_for: {{path: {flag}, timeout: 60, sleep: 1}}
"""


@pytest.fixture(autouse=True)
def _plain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(detached, "_command_prefixes", lambda _name: [[]])


def wait(site: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", PROGRAM, "report", "wait", "-i", str(site / "inventory"), *words]
    return subprocess.run(command, check=False, capture_output=True, text=True, timeout=120)


@pytest.fixture
def site(tmp_path: Path) -> Path:
    (tmp_path / "inventory").mkdir()
    host = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    (tmp_path / "inventory/hosts.yml").write_text(json.dumps({"all": {"hosts": {"localhost": host}}}))
    (tmp_path / "play.yml").write_text(PLAY.format(flag=tmp_path / "flag"))
    return tmp_path


def test_detached_run_outlives_its_parent_and_keeps_its_exit_code(site: Path) -> None:
    words = ["provision", str(site / "play.yml"), "-i", str(site / "inventory")]
    program = (
        "import sys, pathlib, busbar.run.detached as d; "
        "print(d.detach(d.site_runs_folder(pathlib.Path(sys.argv[1])), sys.argv[2:]).name)"
    )
    command = [sys.executable, "-c", program, str(site), *words]
    begun = subprocess.run(command, check=False, capture_output=True, text=True, timeout=120)
    assert begun.returncode == 0, begun.stderr
    run = find(site_runs_folder(site))
    assert (run.name, run.runs, run.exit_code) == (begun.stdout.strip(), True, None)
    assert os.getsid(int(run.process)) == int(run.process)
    assert f"validation {run.name}: runs (PID {run.process})" in wait(site, "--status").stdout
    (site / "flag").touch()
    done = wait(site, run.name)
    assert (done.returncode, "PLAY RECAP" in done.stdout) == (0, True), done.stdout + done.stderr
    assert "exited with code 0" in wait(site, "--status").stdout
    assert run.folder.stat().st_mode & 0o077 == 0


def test_killed_run_is_inconclusive(site: Path) -> None:
    run = detach(site_runs_folder(site), ["provision", str(site / "play.yml"), "-i", str(site / "inventory")])
    os.kill(int(run.process), signal.SIGKILL)
    done = wait(site)
    (site / "flag").touch()
    assert (done.returncode, "was killed before it finished" in done.stderr) == (3, True), done.stdout + done.stderr


def test_failed_forked_process_leaves_no_exit_code_of_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def forks(_words: list[str]) -> int:
        child = os.fork()
        if child == 0:
            raise ChildProcessError
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        seen.append((tmp_path / "exit_code").exists())
        return 0

    monkeypatch.setattr("busbar.cli.main", forks)
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    with (tmp_path / "lock").open("wb") as lock:
        try:
            assert detached.main([str(tmp_path), str(lock.fileno()), "validate"]) == 0
        except ChildProcessError:
            os._exit(7)
    assert seen == [False]
    assert (tmp_path / "exit_code").read_text() == "0\n"


def test_bad_usage_of_the_command_is_kept_as_exit_code(site: Path) -> None:
    run = detach(site_runs_folder(site), ["validate", "-i", str(site / "nothing")])
    until = time.monotonic() + 60
    while run.runs and time.monotonic() < until:
        time.sleep(0.1)
    assert run.exit_code == 2
    assert "not found" in run.output.read_text(encoding="utf-8")


def test_next_command_prefix_is_used_if_one_fails(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(detached, "_command_prefixes", lambda _name: [["false"], []])
    assert detach(site_runs_folder(site), ["report", "list", "-i", str(site / "nothing")]).process
    monkeypatch.setattr(detached, "_command_prefixes", lambda _name: [["false"]])
    with pytest.raises(UsageError, match="did not start"):
        detach(site_runs_folder(site), ["report", "list"])


def test_no_match_and_several_matches_are_reported(site: Path) -> None:
    with pytest.raises(UsageError, match="0 detached validations match '' in "):
        find(site_runs_folder(site))
    for name in ("20261122T210000", "20261122T220000"):
        folder = site_runs_folder(site) / name
        folder.mkdir(parents=True)
        (folder / "lock").touch()
    assert find(site_runs_folder(site)).name == "20261122T220000"
    assert find(site_runs_folder(site), "20261122T21").name == "20261122T210000"
    with pytest.raises(UsageError, match="2 detached validations match '20261122T2'"):
        find(site_runs_folder(site), "20261122T2")
    assert main(["report", "wait", "-i", str(site / "inventory"), "x"]) == 2


def test_a_folder_or_output_that_cannot_be_read_is_named(
    site: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = site_runs_folder(site) / "20261122T210000"
    folder.mkdir(parents=True)
    (folder / "lock").touch()
    assert main(["report", "wait", "-i", str(site / "inventory")]) == 2
    said = (
        f"busbar: cannot read the output of validation {folder.name}, which was killed: {folder}/output: No such file"
    )
    assert capsys.readouterr().err.startswith(said)

    # Root may read every folder.
    def refused(path: Path) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "iterdir", refused)
    assert main(["report", "wait", "-i", str(site / "inventory")]) == 2
    assert f"{folder.parent}: Permission denied; run the command as the user who started" in capsys.readouterr().err


def test_a_password_prompt_is_refused(site: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["validate", "-i", str(site / "inventory"), "--detach", "-K"]) == 2
    assert "use --become-password-file" in capsys.readouterr().err
    assert not site_runs_folder(site).exists()


@pytest.mark.parametrize(
    ("root", "lingers", "expected"),
    [
        (True, False, ["systemd-run", "--scope"]),
        (False, True, ["systemd-run", "--user"]),
        (False, False, None),
    ],
)
def test_command_prefix_depends_on_root_and_lingering(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, expected: list[str] | None, *, root: bool, lingers: bool
) -> None:
    monkeypatch.undo()
    for name, value in (("_SYSTEMD", tmp_path), ("_LINGER", tmp_path), ("getuser", lambda: "bob")):
        monkeypatch.setattr(detached, name, value)
    monkeypatch.setattr(shutil, "which", lambda _name: "/usr/bin/systemd-run")
    monkeypatch.setattr(os, "geteuid", lambda: 0 if root else 1000)
    if lingers:
        (tmp_path / "bob").touch()
    ways = detached._command_prefixes("x")  # noqa: SLF001 - the tested function
    assert ways[-1] == []
    assert (ways[0][:2] if len(ways) > 1 else None) == expected


def test_run_without_a_site_is_kept_in_the_users_state_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", "relative")
    assert user_runs_folder() == tmp_path / ".local/state/busbar/detached"
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    detach(user_runs_folder(), ["hardware", "list"])
    monkeypatch.chdir(tmp_path)
    assert main(["report", "wait"]) == 0
    assert [path.name for path in tmp_path.iterdir()] == ["state"]
