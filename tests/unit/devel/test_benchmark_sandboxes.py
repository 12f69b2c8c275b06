"""Benchmarks that make sandboxes: what they run, what they refuse, and that nothing of them is left."""

from __future__ import annotations

import io
import json
import os
import shlex
import subprocess
import tarfile
import time
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest
from busbar.sandbox import state
from devel import benchmark, measured, sandboxes
from devel.benchmarks import peer, provision, validate

if TYPE_CHECKING:
    from pathlib import Path


# What the fixture replaces, for a benchmark that starts a program of its own.
RUN = subprocess.run
PIPES = {name: getattr(subprocess, name) for name in ("DEVNULL", "PIPE", "STDOUT")}


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
    monkeypatch.setattr(sandboxes, "_storage", lambda: str(tmp_path))
    monkeypatch.setattr(sandboxes, "sandbox_path", lambda name: tmp_path / name)
    monkeypatch.setattr(subprocess, "run", lambda command, **_how: commands.append(tuple(command[1:])))
    monkeypatch.setattr(measured, "available_mib", lambda: 1 << 20)
    monkeypatch.setattr(measured, "free_mib", lambda _folder: 1 << 20)
    return commands


def _grown(said: list[tuple[str, ...]]) -> list[str]:
    return [words[-1] for words in said if words[:2] == ("sandbox", "up")]


def test_joins_to_clusters_of_several_sizes(
    said: list[tuple[str, ...]], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(state, "load", lambda name: state.Sandbox(name, subnet="10.209.7"))
    assert benchmark.main(["add_node", "--sizes", "2,5", "--runs", "1", "--json"]) == 0
    entries = json.loads(capsys.readouterr().out)["figures"]
    figures = {(entry["figure"], entry.get("at")): entry for entry in entries}
    assert (figures["tasks_on_old", 2]["value"], figures["tasks_on_old", 5]["value"]) == (12, 22)
    assert figures["tasks_on_new", 5]["value"] == 200
    assert (figures["tasks_on_old_ratio", None]["value"], figures["tasks_on_old_ratio", None]["met"]) == (1.83, False)
    assert _grown(said) == ["2", "3", "5", "6"]
    runs = [words for words in said if words[0] == "provision"]
    assert [words[1] for words in runs] == ["-i", "add_nodes", "add_nodes", "add_nodes"]
    assert all('{"cluster_networks": ["10.209.7.0/24"]}' in words for words in runs)
    assert said[-1] == ("sandbox", "down", "--name", "benchmark")


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


@pytest.mark.parametrize("name", ["add_node", "noop", "provision", "validate"])
def test_no_sandbox_of_somebody_is_measured_or_removed(
    name: str, said: list[tuple[str, ...]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mine").mkdir()
    assert benchmark.main([name, "--name", "mine"]) == 2
    assert "there is a sandbox mine already" in capsys.readouterr().err
    assert said == []


@pytest.mark.usefixtures("said")
def test_what_does_not_fit_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(measured, "free_mib", lambda _folder: 9)
    assert benchmark.main(["add_node"]) == 2
    told = f"of disk in {tmp_path} at this size, and 9 MiB are free: make room in {tmp_path}, or choose a smaller"
    assert told in capsys.readouterr().err


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


def _job(number: int, start: int, end: int) -> validate.Job:
    return validate.Job(str(number), start, end, f"sbatch --parsable --nodelist=gpu{number} --export=ALL,A=1:2")


@pytest.mark.parametrize(
    ("spans", "together"),
    [
        ([], []),
        ([(10, 14)], [[1]]),
        ([(10, 14), (10, 14), (14, 16)], [[1, 2], [3]]),
        ([(20, 25), (10, 14), (13, 16)], [[2, 3], [1]]),
        ([(10, 20), (12, 13), (15, 30)], [[1, 2, 3]]),
    ],
)
def test_jobs_that_ran_side_by_side(spans: list[tuple[int, int]], together: list[list[int]]) -> None:
    jobs = [_job(number, *span) for number, span in enumerate(spans, 1)]
    assert [[int(job.number) for job in jobs] for jobs in validate.rounds(jobs)] == together


def test_jobs_of_this_validation_alone() -> None:
    text = "7|90|95|sbatch -a|b\n8|100|105|sbatch --parsable\n9|101|Unknown|sbatch\nnonsense\n"
    assert validate.jobs_of(text, 100) == [validate.Job("8", 100, 105, "sbatch --parsable")]


@pytest.mark.parametrize(
    ("state", "code", "said"),
    [("COMPLETED", 0, ""), ("COMPLETING", 0, ""), ("RUNNING", 1, "job 11 failed"), ("FAILED", 1, "job 11 failed")],
)
def test_jobs_are_submitted_again_in_sets(tmp_path: Path, state: str, code: int, said: str) -> None:
    _command(tmp_path, "runuser", 'shift 11; exec "$@"')
    _command(tmp_path, "sbatch", 'echo "$* <$(cat)" >>"$HERE/log"; echo $(($(wc -l <"$HERE/log") + 10))')
    _command(tmp_path, "squeue", 'echo "$*" >>"$HERE/asked"; [ "$(wc -l <"$HERE/asked")" -gt 1 ] || echo 11')
    shown = f"echo 'JobId=11 JobState={state} Reason=None ExitCode=0:0 RunTime=1'"
    _command(tmp_path, "scontrol", f'if [ "$1" = write ]; then echo "script $3" >"$4"; else {shown}; fi')
    script = validate.again([[_job(1, 0, 1), _job(2, 0, 1)], [_job(3, 1, 2)]])
    _command(tmp_path, "getent", "echo busbar-validation:x:962:962::/home/of/it:/bin/sh")
    path = {"PATH": f"{tmp_path}:/usr/bin:/bin", "HERE": str(tmp_path)}
    done = subprocess.run(["sh", "-c", script], check=False, capture_output=True, text=True, env=path)
    assert (done.returncode, said in done.stderr) == (code, True)
    assert code or 0.2 <= float(done.stdout) < 60
    submitted = [f"--parsable --nodelist=gpu{number} --export=ALL,A=1:2 <script {number}" for number in (1, 2, 3)]
    assert (tmp_path / "log").read_text().splitlines() == submitted
    asked = (tmp_path / "asked").read_text().splitlines()
    assert [line.split()[2] for line in asked] == ["11,12", "11,12", "11,12,13"]


def test_what_a_validation_takes_beyond_its_jobs(
    said: list[tuple[str, ...]], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def timed(*words: str) -> sandboxes.Spent:
        said.append(words)
        return sandboxes.Spent(60.0, 1.0, "")

    def printed(_cluster: object, _node: str, command: str) -> bytes:
        return f"1|{time.time() + 9:.0f}|{time.time() + 19:.0f}|sbatch\n".encode() if "sacct" in command else b"50.0\n"

    monkeypatch.setattr(sandboxes, "timed", timed)
    monkeypatch.setattr(sandboxes, "printed", printed)
    monkeypatch.setattr(state, "load", lambda name: name)
    assert benchmark.main(["validate", "--times", "2", "--runs", "1", "--json"]) == 0
    found = {entry["figure"]: entry["value"] for entry in json.loads(capsys.readouterr().out)["figures"]}
    assert (found["validation"], found["jobs_alone"], found["jobs"], found["overhead"]) == (60, 50, 1, 10)
    assert found["overhead_beyond_2_percent"] == 9
    assert [words[0] for words in said if "-i" in words] == ["provision", "validate", "validate"]


def test_a_validation_without_jobs_is_none(
    said: list[tuple[str, ...]], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sandboxes, "printed", lambda *_words: b"")
    monkeypatch.setattr(state, "load", lambda name: name)
    assert benchmark.main(["validate", "--runs", "1"]) == 1
    assert "knows no job of this validation" in capsys.readouterr().err
    assert said[-1] == ("sandbox", "down", "--name", "benchmark")


def test_another_playbook_and_busbar_run_twice_each_on_fresh_nodes(
    said: list[tuple[str, ...]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(peer, "subprocess", SimpleNamespace(run=RUN, **PIPES))
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    _command(tmp_path, "ansible-playbook", f"echo {shlex.quote(_recap(2, 5, changed=4))}; exit $(cat {tmp_path}/rc)")
    (tmp_path / "rc").write_text("0")
    playbook = tmp_path / "other.yml"
    playbook.write_text("[]")
    asked = ["peer", "--playbook", str(playbook), "--runs", "1", "--json"]
    assert benchmark.main(asked) == 0
    found = {entry["figure"]: entry["value"] for entry in json.loads(capsys.readouterr().out)["figures"]}
    assert {"peer_first", "peer_second", "busbar_first", "busbar_second", "busbar_second_cpu"} <= set(found)
    assert found["peer_first_changed"] > 0
    assert [words[:2] for words in said if words[0] == "sandbox"] == [
        *(("sandbox", "up"), ("sandbox", "down")) * 2,
    ]
    (tmp_path / "rc").write_text("2")
    assert benchmark.main(asked) == 1
    assert "other.yml ended with 2" in capsys.readouterr().err
    assert said[-1][:2] == ("sandbox", "down")


def test_a_playbook_that_is_not_there(said: list[tuple[str, ...]], capsys: pytest.CaptureFixture[str]) -> None:
    assert benchmark.main(["peer", "--playbook", "/nowhere/other.yml", "--runs", "1"]) == 2
    assert "/nowhere/other.yml: there is no such file" in capsys.readouterr().err
    assert not said
