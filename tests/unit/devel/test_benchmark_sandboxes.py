"""Benchmarks that make sandboxes: what they run, what they refuse, and that nothing of them is left."""

from __future__ import annotations

import io
import json
import os
import shlex
import subprocess
import tarfile
from typing import TYPE_CHECKING

import pytest
from devel import benchmark, sandboxes
from devel.benchmarks import provision

if TYPE_CHECKING:
    from pathlib import Path


def _recap(nodes: int, tasks: int, changed: int = 0) -> str:
    old = "".join(f"gpu{number}   : ok={tasks - 1}    changed=0\n" for number in range(2, nodes + 1))
    return f"PLAY RECAP ****\ngpu1    : ok={tasks}   changed={changed}\n{old}gpu{nodes + 1} : ok=200  changed=0\n"


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[tuple[str, ...]]:
    """What the benchmarks run; a node that is there has ten tasks more in a cluster of five than of two."""
    commands: list[tuple[str, ...]] = []

    def run(*words: str) -> str:
        commands.append(words)
        size = int(next(each for each in reversed(commands) if each[:2] == ("sandbox", "up"))[-1])
        return _recap(size - 1, 12 if size == 3 else 22)

    monkeypatch.setattr(sandboxes, "busbar", run)
    monkeypatch.setattr(sandboxes, "sandbox_path", lambda name: tmp_path / name)
    monkeypatch.setattr(subprocess, "run", lambda command, **_how: commands.append(tuple(command[1:])))
    return commands


def _grown(said: list[tuple[str, ...]]) -> list[str]:
    return [words[-1] for words in said if words[:2] == ("sandbox", "up")]


def test_second_runs_of_clusters_of_several_sizes(
    said: list[tuple[str, ...]], capsys: pytest.CaptureFixture[str]
) -> None:
    assert benchmark.main(["noop", "--sizes", "2,4", "--runs", "1", "--json"]) == 0
    entries = json.loads(capsys.readouterr().out)["figures"]
    figures = {(entry["figure"], entry.get("at")): entry for entry in entries}
    assert {("wall", 2), ("provisioning_host_cpu", 4), ("wall_per_further_node", None)} <= figures.keys()
    assert _grown(said) == ["2", "4"]
    runs = [words for words in said if words[0] == "provision"]
    assert (len(runs), {words[-2:] for words in runs}) == (4, {("--skip-tags", "validation")})
    assert said[-1] == ("sandbox", "down", "--name", "benchmark")


def test_a_second_run_that_changes_something_is_no_second_run(
    said: list[tuple[str, ...]], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sandboxes, "busbar", lambda *_words: _recap(2, 9, changed=3))
    assert benchmark.main(["noop", "--sizes", "2", "--runs", "1"]) == 1
    assert "the second run at 2 nodes changed something on gpu1" in capsys.readouterr().err
    assert said == [("sandbox", "down", "--name", "benchmark")]


@pytest.mark.parametrize("name", ["noop", "provision"])
def test_no_sandbox_of_somebody_is_measured_or_removed(
    name: str, said: list[tuple[str, ...]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mine").mkdir()
    assert benchmark.main([name, "--name", "mine"]) == 2
    assert "there is a sandbox mine already" in capsys.readouterr().err
    assert said == []


def _command(folder: Path, name: str, script: str) -> None:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    path.chmod(0o755)


def test_a_command_that_fails_or_leaves_something_running(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    # It holds the standard output open; a reader of a pipe would wait for it.
    _command(tmp_path, "busbar", "sleep 30 & echo $! >$0.pid; echo done")
    assert sandboxes.busbar("sandbox", "up") == "done\n"
    os.kill(int((tmp_path / "busbar.pid").read_text()), 9)
    _command(tmp_path, "busbar", "echo no room >&2; exit 4")
    with pytest.raises(ValueError, match=r"busbar provision x ended with 4: no room"):
        sandboxes.busbar("provision", "x")
    assert "benchmark: busbar provision x …" in capsys.readouterr().err
    _command(tmp_path, "busbar", "echo begun; exec sleep 30")
    monkeypatch.setattr(sandboxes, "_COMMAND_S", 0.5)
    with pytest.raises(ValueError, match=r"did not end within 0.5 s: begun"):
        sandboxes.busbar("provision")


def test_the_shell_script_installs_packages_and_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    log, root = tmp_path / "log", tmp_path / "root"
    root.mkdir()
    for name in ("apt-get", "tar"):
        _command(
            tmp_path, name, f'echo {name} "$@" >>{log}; [ {name} = apt-get ] || exec /usr/bin/tar -xzf - -C {root}'
        )
    _command(tmp_path, "sudo", 'exec "$@"')
    # As ssh does it: the words after the address are one line for the shell of the host.
    _command(tmp_path, "ssh", 'shift 2; exec sh -c "$*"')
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        entry = tarfile.TarInfo("etc/motd")
        entry.size = 3
        archive.addfile(entry, io.BytesIO(b"hi\n"))
    (tmp_path / "files of gpu1.tar.gz").write_bytes(packed.getvalue())
    script = provision.install_script(
        "192.0.2.1", ["ssh", "-q"], ["munge=0.5+b1", "pkg:amd64=1:2~3"], str(tmp_path / "files of gpu1.tar.gz")
    )
    subprocess.run(["sh", "-ec", script], check=True)
    assert (root / "etc/motd").read_text() == "hi\n"
    update, install, unpack = log.read_text().splitlines()
    assert (update, unpack) == ("apt-get -qq update", "tar -xzf - -C /")
    assert shlex.split(install)[-3:] == ["install", "munge=0.5+b1", "pkg:amd64=1:2~3"]
    _command(tmp_path, "apt-get", "exit 100")
    assert subprocess.run(["sh", "-ec", script], check=False).returncode == 100
