"""Tests of processes that prevent the removal of a user."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from ansible_collections.busbar.cluster.plugins.module_utils.access.user_processes import (
    in_job,
    runs_slurmctld,
    user_processes,
)

if TYPE_CHECKING:
    from pathlib import Path


BOB = "2002 2002 2002 2002"
# Cgroup paths of slurmd 24.11 and 26.05; the second with cgroup v2 and several slurmd on one host.
JOB_NUMBER = "0::/system.slice/slurmstepd.scope/job_11/step_batch/user/task_0"
JOB_SLUID = "0::/system.slice/gpu1_slurmstepd.scope/sCVDM8AJ3Q3S00/step_batch/user/task_special"


def process(folder: Path, command: str, uids: str = BOB, *, state: str = "S", cgroup: str = "0::/init") -> None:
    folder.mkdir()
    uids = uids.replace(" ", "\t")
    (folder / "comm").write_text(f"{command}\n")
    (folder / "status").write_text(f"Name:\t{command}\nState:\t{state} (x)\nUid:\t{uids}\n")
    (folder / "cgroup").write_text(f"{cgroup}\n")


@pytest.mark.parametrize(
    ("told", "cgroup", "says"),
    [
        (("sleep", BOB, "S"), JOB_NUMBER, "process 7 (sleep, job 11)"),
        (("sleep", BOB, "S"), "4:memory:/slurm/uid_2002/job_11/step_0\n0::/x", "process 7 (sleep, job 11)"),
        (("sleep", BOB, "S"), JOB_SLUID, "process 7 (sleep, a job)"),
        (("bash", "2002 2002 2002 2002", "R"), "0::/user.slice", "process 7 (bash)"),
        (("sudo", "0 0 2002 0", "S"), "0::/", "process 7 (sudo)"),
        (("e\x1b[2Jvil", "2002 0 0 0", "S"), "0::/", "process 7 (e?[2Jvil)"),
        (("gone", "2002 2002 2002 2002", "Z"), "0::/", ""),
        (("other", "2003 2003 2003 2003", "S"), "0::/", ""),
        (("longer", "20021 20021 20021 20021", "S"), "0::/", ""),
    ],
)
def test_processes_of_a_user_are_described(tmp_path: Path, told: tuple[str, str, str], cgroup: str, says: str) -> None:
    process(tmp_path / "7", *told[:2], state=told[2], cgroup=cgroup)
    assert user_processes({"bob": 2002, "carol": 2009}, tmp_path) == ({"bob": [says]} if says else {})


def test_job_id_is_read_from_the_environment_if_the_path_has_a_sluid(tmp_path: Path) -> None:
    process(tmp_path / "7", "sleep", cgroup=JOB_SLUID)
    (tmp_path / "7/environ").write_bytes(b"A=1\0SLURM_JOB_ID=12\0B=\0")
    assert user_processes({"bob": 2002}, tmp_path) == {"bob": ["process 7 (sleep, job 12)"]}


@pytest.mark.parametrize(
    ("cgroup", "inside"),
    [
        (JOB_NUMBER, True),
        (JOB_SLUID, True),
        (JOB_SLUID.replace("gpu1_", ""), True),
        ("1:name=systemd:/user.slice\n7:devices:/slurm/uid_2002/job_3/step_0/task_0", True),
        ("0::/user.slice/user-2002.slice/session-3.scope", False),
        ("0::/user.slice/user-2002.slice/user@2002.service/app.slice/myslurmstepd.scope/x", False),
        ("0::/user.slice/user-2002.slice/user@2002.service/app.slice/my_slurmstepd.scope/x", False),
        ("0::/user.slice/user-2002.slice/user@2002.service/job_11/x", False),
        ("0::/system.slice/slurmstepd.scope", False),
    ],
)
def test_cgroup_path_belongs_to_a_job(cgroup: str, inside: bool) -> None:  # noqa: FBT001 - a parameter of the test
    assert in_job(f"{cgroup}\n") is inside


def test_process_that_ends_during_the_read_is_ignored(tmp_path: Path) -> None:
    (tmp_path / "8").mkdir()
    assert user_processes({"bob": 2002}, tmp_path) == {}


def test_slurmctld_is_recognised(tmp_path: Path) -> None:
    assert not runs_slurmctld(tmp_path)
    process(tmp_path / "9", "slurmctld", "64030 64030 64030 64030")
    assert runs_slurmctld(tmp_path)
