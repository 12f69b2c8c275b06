"""Tests of the validation jobs: their user, and the environment variables that they get."""

from __future__ import annotations

import os
import pwd
import subprocess
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.busbar.cluster.plugins.module_utils.slurm.job_runner import Runner
from executables import executable

if TYPE_CHECKING:
    from collections.abc import Iterator

TEST: dict[str, Any] = {
    "name": "cluster",
    "nodes": ["gpu1"],
    "candidates": [],
    "partners": 0,
    "minimum": 1,
    "script": "#!/bin/bash\n",
    "arguments": [],
    "output": "/var/lib/busbar-validation/x-%j.out",
}
PARAMS: dict[str, Any] = {"tests": [TEST], "share": False, "time_limit": 60, "left": None, "home": "/nonexistent"}


class Module(SimpleNamespace):
    """The part of AnsibleModule that the job runner uses; commands run for real."""

    def run_command(self, command: list[str], data: str | None = None, **_more: object) -> tuple[int, str, str]:
        """Run a command."""
        done = subprocess.run(command, check=False, capture_output=True, text=True, input=data)
        return done.returncode, done.stdout, done.stderr


def submitted(user: str) -> dict[str, Any]:
    runner = Runner(Module(params=PARAMS | {"user": user}))
    return runner.submit(TEST, {"gpu1": ("idle", "")})


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """Return a directory that other users can enter; pytest revokes access to its own at each start."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


def test_job_runs_as_the_user_without_the_environment_of_root(
    open_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root becomes another")
    sbatch = open_folder / "sbatch"
    executable(sbatch, "#!/bin/sh\nexec >&2; id -u; id -G; env; exit 1\n")
    monkeypatch.setenv("PATH", f"{sbatch.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("SECRET_OF_ROOT", "x")
    said = submitted("nobody")["problem"].splitlines()
    nobody = pwd.getpwnam("nobody")
    assert said[:2] == [f"sbatch: {nobody.pw_uid}", str(nobody.pw_gid)]
    names = {line.partition("=")[0] for line in said[2:]}
    assert names - {"PWD", "SHLVL", "_", "SLURM_CONF"} == {"HOME", "LANG", "LOGNAME", "PATH", "SHELL", "USER"}


def test_nothing_is_submitted_if_the_user_is_missing() -> None:
    entry = submitted("nobody-at-all")
    assert (
        entry["problem"]
        == "the controller has no user nobody-at-all: run busbar provision slurm, which creates the user"
    )
    assert entry["job_id"] == ""
