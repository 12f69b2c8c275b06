"""Tests of finding the process that holds a package manager's lock, with real locks."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.busbar.cluster.plugins.module_utils.common.package_lock import (
    Holder,
    first_holder,
    holder_text,
    lock_holder,
    over_limit_text,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

# Lock with fcntl(2) like apt, and hold the lock until stdin closes.
KEEPER = """
import fcntl, pathlib, sys
path = pathlib.Path(sys.argv[1])
path.parent.mkdir(parents=True, exist_ok=True)
stream = path.open("w")
fcntl.lockf(stream, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.read()
"""
HOLDER: Holder = {"lock": "/var/lib/apt/lists/lock", "pid": 7, "process": "apt-get", "command": "apt-get update"}


@pytest.fixture(params=["var/lib/dpkg/lock-frontend", "var/lib/apt/lists/lock", "var/lib/rpm/.rpm.lock"])
def held(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[tuple[str, int]]:
    """Start a process that holds a lock; return the path of the lock and the PID."""
    pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", KEEPER, str(tmp_path / request.param)], **pipes) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        yield f"/{request.param}", process.pid
        assert process.stdin is not None
        process.stdin.close()


def test_holder_is_reported_with_process_and_command(tmp_path: Path, held: tuple[str, int]) -> None:
    holder = first_holder(tmp_path)
    assert holder is not None
    assert (holder["lock"], holder["pid"]) == held
    assert holder["process"].startswith("python")
    assert "-c import fcntl, pathlib" in holder["command"]


def test_free_lock_has_no_holder(tmp_path: Path) -> None:
    assert first_holder(tmp_path) is None
    (tmp_path / "var/lib/dpkg").mkdir(parents=True)
    (tmp_path / "var/lib/dpkg/lock").touch()
    assert first_holder(tmp_path) is None


@pytest.mark.parametrize(
    ("pid", "holds"),
    [(1, True), (os.getpid(), False), (2**22 + 1, False), (0, False)],
    ids=["another", "own", "beyond", "none"],
)
def test_dnf_pid_file_counts_only_for_a_living_process(tmp_path: Path, pid: int, *, holds: bool) -> None:
    (tmp_path / "var/lib/dnf").mkdir(parents=True)
    (tmp_path / "var/lib/dnf/rpmdb_lock.pid").write_text(str(pid))
    holder = first_holder(tmp_path)
    assert (holder is not None) is holds
    assert holder is None or holder["pid"] == pid


def test_wait_for_the_lock_is_bounded() -> None:
    slept: list[float] = []
    assert lock_holder(15, lambda: HOLDER, slept.append) == HOLDER
    assert sum(slept) == 15
    answers = iter([HOLDER, HOLDER, None])
    slept.clear()
    assert lock_holder(15, lambda: next(answers), slept.append) is None
    assert len(slept) == 2


def test_holder_text_describes_the_holder() -> None:
    text = "/var/lib/apt/lists/lock is held by apt-get (pid 7: apt-get update)"
    assert holder_text(HOLDER) == text
    hidden: Holder = {**HOLDER, "pid": 0, "process": "", "command": ""}
    assert holder_text(hidden) == "/var/lib/apt/lists/lock is held by a process that is not visible on this host"
    assert over_limit_text(HOLDER, 300).splitlines()[0] == (
        f"the package manager was busy for 300 s. Nothing was installed: {text}"
    )
    assert "remedy: wait for it" in over_limit_text(HOLDER, 300)
