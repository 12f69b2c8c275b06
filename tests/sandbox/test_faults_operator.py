"""Tests of faults on the provisioning host: killed runs, concurrent runs, a read-only secrets folder."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from typing import TYPE_CHECKING

import pytest
from conftest import TOP, plain_environment
from fault_results import note
from faulted import Work, is_said, prove_rest, provision

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from conftest import Cluster

pytestmark = pytest.mark.proves("preflight", "slurm")

NAMES = ("base", "-t", "hosts")


@pytest.fixture(scope="module")
def work(sandbox: Cluster) -> Iterator[Work]:
    """Return the jobs, accounts and secrets that must survive."""
    there = Work(sandbox)
    yield there
    there.end()


@contextlib.contextmanager
def running(sandbox: Cluster, *run: str) -> Iterator[subprocess.Popen[str]]:
    """Start a run and yield it after its first task."""
    command = ["busbar", "provision", *run, "-i", str(sandbox.inventory)]
    with subprocess.Popen(
        command,
        cwd=TOP,
        env=plain_environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as run_:
        assert run_.stdout
        for line in run_.stdout:
            if " s  " in line:
                break
        try:
            yield run_
        finally:
            run_.kill()


def heal(sandbox: Cluster, work: Work, name: str, told_s: float, *run: str) -> str:
    """Check that the next run heals and nothing is lost; return its output."""
    began = time.monotonic()
    healed = provision(sandbox, *run)
    assert healed.returncode == 0, healed.stdout + healed.stderr
    healed_s = time.monotonic() - began
    work.is_whole()
    told = {"told_s": round(told_s)} if told_s else {}
    note("runs", name, told | {"healed_s": round(healed_s)})
    return healed.stdout + healed.stderr


@pytest.mark.fault(
    "two operators at once",
    says="another run uses this inventory",
    heals="wait until the other run has ended; the message says whose it is",
)
def test_second_operator_is_refused_while_the_first_runs(sandbox: Cluster, work: Work) -> None:
    with running(sandbox, *NAMES) as first:
        began = time.monotonic()
        second = provision(sandbox, *NAMES)
        told_s = time.monotonic() - began
        said = second.stdout + second.stderr
        assert second.returncode == 2, said
        assert is_said("another run uses this inventory", said), said
        assert str(os.getpid()) not in said
        assert told_s < 30
        rest, _ = first.communicate(timeout=300)
    assert first.returncode == 0, rest
    heal(sandbox, work, "two operators at once", told_s, *NAMES)


def offspring(pid: int) -> list[int]:
    """Return all child processes of a process, recursively."""
    children = [
        int(word)
        for word in subprocess.run(
            ["pgrep", "-P", str(pid)], check=False, capture_output=True, text=True
        ).stdout.split()
    ]
    return [each for child in children for each in (child, *offspring(child))]


@pytest.mark.fault(
    "an operator's run that is killed with -9",
    says="took over the stale lock of a killed run",
    heals="nothing",
)
def test_killed_run_does_not_block_the_next(sandbox: Cluster, work: Work) -> None:
    change = (*NAMES, "-e", '{"hosts_extra": [{"address": "192.0.2.9", "names": ["killed.example"]}]}')
    with running(sandbox, *change) as run:
        for process in [run.pid, *offspring(run.pid)]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
    began = time.monotonic()
    said = heal(sandbox, work, "an operator's run that is killed with -9", 0, *NAMES)
    assert is_said("took over the stale lock of a killed run", said), said
    assert time.monotonic() - began < 300


def within(mount: str, command: list[str]) -> subprocess.CompletedProcess[str]:
    """Run a command in a mount namespace of its own after a mount command."""
    words = ["unshare", "--mount", "sh", "-ec", f'{mount}; exec "$@"', "sh", *command]
    return subprocess.run(
        words, check=False, capture_output=True, text=True, timeout=900, cwd=TOP, env=plain_environment()
    )


@pytest.fixture
def without_key(sandbox: Cluster) -> Iterator[Path]:
    """Remove the site's munge key during the test, as for an intentional rotation."""
    key = sandbox.state / "secrets" / "munge.key"
    key.rename(key.with_suffix(".away"))
    yield key
    key.with_suffix(".away").rename(key)


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts on this host")
@pytest.mark.fault(
    "a secrets folder that is read-only",
    says="munge.key…Read-only file system",
    heals="make the folder writable",
)
def test_secret_that_cannot_be_saved_is_not_deployed(sandbox: Cluster, work: Work, without_key: Path) -> None:
    folder = without_key.parent
    before = {node: sandbox.exec(node, "sha256sum /etc/munge/munge.key").stdout for node in ("ctl", "gpu1")}
    run = ["busbar", "provision", "slurm", "-t", "munge", "-i", str(sandbox.inventory)]
    began = time.monotonic()
    done = within(
        f"mount --bind {folder} {folder} && mount -o remount,bind,ro {folder}",
        [*run, "-e", "preflight_rotate_secrets=munge.key"],
    )
    told_s = time.monotonic() - began
    said = done.stdout + done.stderr
    assert done.returncode == 2, said
    assert is_said("munge.key…Read-only file system", said), said
    assert "Traceback" not in said
    assert {node: sandbox.exec(node, "sha256sum /etc/munge/munge.key").stdout for node in before} == before
    without_key.with_suffix(".away").rename(without_key)
    try:
        heal(sandbox, work, "a secrets folder that is read-only", told_s, "slurm", "-t", "munge")
    finally:
        without_key.rename(without_key.with_suffix(".away"))


def test_run_after_all_faults_changes_nothing(sandbox: Cluster, work: Work) -> None:
    prove_rest(sandbox, *NAMES)
    work.is_whole()
