"""Tests of finding the error about a failed job launch in slurmd's log."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest
from ansible_collections.busbar.cluster.plugins.plugin_utils.slurm.job_launch_errors import (
    launch_error,
    launch_log_script,
)
from executables import executable

if TYPE_CHECKING:
    from pathlib import Path

# Log format of slurmd 26.05 and 24.11.
NEW = """\
[2026-11-25T10:00:01.100] error: something of another job
[2026-11-25T10:00:02.100] task/affinity: task_p_slurmd_batch_request: task_p_slurmd_batch_request: 83
[2026-11-25T10:00:02.200] error: _get_user_env: Unable to get user's local environment
[2026-11-25T10:00:02.300] Could not launch JobId=83 StepId=batch and not able to requeue it, cancelling job
[2026-11-25T10:00:09.000] error: later
"""
OLD = """\
[2026-11-25T10:00:02.200] error: [job 83] prolog failed status=1:0
[2026-11-25T10:00:02.300] Could not launch job 83 and not able to requeue it, cancelling job
"""


@pytest.fixture
def run(tmp_path: Path) -> object:
    """Return a function that runs the script on a node with a slurmd log in the file or in the journal."""

    def done(log: str, job_id: str, *, journal: bool = False) -> str:
        file = tmp_path / "slurmd.log"
        if not journal:
            file.write_text(log)
        for name, text in {
            "scontrol": f"echo 'SlurmctldLogFile        = /x'; echo 'SlurmdLogFile           = {file}'",
            "journalctl": f"cat <<'END'\n{log}END",
        }.items():
            executable(tmp_path / name, f"#!/bin/sh\n{text}\n")
        script = launch_log_script(job_id)
        environment = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
        shell = subprocess.run(["sh"], check=False, input=script, capture_output=True, text=True, env=environment)
        return launch_error(f"Welcome, error: none\n{shell.stdout}")

    return done


@pytest.mark.parametrize("journal", [False, True])
@pytest.mark.parametrize(
    ("log", "job_id", "reason"),
    [
        (NEW, "83", "_get_user_env: Unable to get user's local environment"),
        (OLD, "83", "[job 83] prolog failed status=1:0"),
        (NEW, "8", ""),
        (NEW.replace("JobId=83", "JobId=835"), "83", ""),
        ("", "83", ""),
    ],
)
def test_error_before_the_failed_launch_is_the_reason(
    run: object, log: str, job_id: str, reason: str, *, journal: bool
) -> None:
    assert callable(run)
    assert run(log, job_id, journal=journal) == reason


def test_script_accepts_only_a_numeric_job_id() -> None:
    with pytest.raises(ValueError, match="is not a job ID"):
        launch_log_script("7; reboot")
