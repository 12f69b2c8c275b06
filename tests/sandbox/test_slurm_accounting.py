"""Tests of accounts, QOS and limits: as declared, and enforced."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from conftest import recap
from test_slurm_jobs import submit, wait_for_state

if TYPE_CHECKING:
    from collections.abc import Iterator

    from conftest import Cluster

pytestmark = pytest.mark.proves("slurm")

DECLARED = {
    "slurm_qos": [
        {"name": "normal", "description": "Normal QOS default"},
        {
            "name": "short",
            "priority": 50,
            "flags": ["DenyOnLimit"],
            "limits": {"MaxWall": 5, "MaxTRESPerUser": "gres/gpu=1"},
        },
    ],
    "slurm_accounts": [
        {
            "name": "research",
            "description": "Research",
            "qos": ["normal", "short"],
            "limits": {"GrpTRES": "gres/gpu=3"},
        },
        {"name": "vision", "parent": "research"},
    ],
    "users_accounts": [
        {"name": "alice", "slurm": {"account": "research", "accounts": ["vision"]}},
        {"name": "bob", "slurm": {"account": "research", "limits": {"MaxJobs": 1}}},
    ],
}
ONLY = ("--limit", "ctl", "--tags", "slurm_accounting")


@pytest.fixture(scope="module")
def declared(sandbox: Cluster) -> Iterator[None]:
    """Apply the site's accounting with limits; restored at the end."""
    extra = json.dumps(DECLARED)
    first = sandbox.playbook("slurm.yml", *ONLY, "-e", extra)
    assert first.returncode == 0, first.stdout
    assert recap(first.stdout)["ctl"]["changed"] == 1
    yield
    gone = {"slurm_qos": [{"name": "short", "state": "absent"}]}
    assert sandbox.playbook("slurm.yml", *ONLY, "-e", json.dumps(gone)).returncode == 0
    sandbox.exec("ctl", "sacctmgr -i delete account vision", check=False)
    again = sandbox.playbook("slurm.yml", *ONLY)
    assert recap(again.stdout)["ctl"]["changed"] == 0, again.stdout


@pytest.mark.usefixtures("declared")
def test_second_run_changes_nothing(sandbox: Cluster) -> None:
    done = sandbox.playbook("slurm.yml", *ONLY, "-e", json.dumps(DECLARED))
    assert recap(done.stdout)["ctl"]["changed"] == 0, done.stdout


@pytest.mark.usefixtures("declared")
def test_check_mode_shows_the_changes_and_makes_none(sandbox: Cluster) -> None:
    wanted = json.dumps({**DECLARED, "users_accounts": [{"name": "bob", "slurm": {"account": "vision"}}]})
    done = sandbox.playbook("slurm.yml", *ONLY, "--check", "--diff", "-e", wanted)
    assert "sacctmgr add user bob Account=vision" in done.stdout
    assert recap(done.stdout)["ctl"]["changed"] == 1
    shown = sandbox.exec("ctl", "sacctmgr -nP show assoc user=bob format=Account").stdout.split()
    assert shown == ["research"]


@pytest.mark.usefixtures("declared")
@pytest.mark.parametrize(
    ("options", "says"),
    [
        ("--qos=short -t 10", "QOSMaxWallDurationPerJobLimit"),
        ("--qos=short -t 1 --gpus-per-node=2", "QOSMaxGRESPerUser"),
        ("--qos=nope", "Invalid qos specification"),
        ("-A nope", "Invalid account"),
    ],
)
def test_job_over_a_limit_is_refused(sandbox: Cluster, options: str, says: str) -> None:
    done = sandbox.exec("login", f"cd /tmp && sbatch {options} --wrap true", user="alice", check=False)
    assert done.returncode != 0
    assert says in done.stderr


@pytest.mark.usefixtures("declared")
def test_job_within_the_limits_runs(sandbox: Cluster) -> None:
    job = submit(sandbox, "--qos=short -t 1 --gpus-per-node=1 -A vision -o /dev/null", "true")
    wait_for_state(sandbox, job, "COMPLETED")


@pytest.mark.usefixtures("declared")
def test_group_limit_makes_jobs_wait(sandbox: Cluster) -> None:
    jobs = [submit(sandbox, "--mem=100 --gpus-per-node=2 -N 1 -o /dev/null", "sleep 60") for _ in range(2)]
    try:
        sandbox.wait_until(
            lambda: "AssocGrpGRES" in sandbox.exec("ctl", f"squeue -h -j {jobs[1]} -o %r").stdout,
            "the second job is not held back by the account's limit",
        )
    finally:
        sandbox.exec("ctl", f"scancel {' '.join(jobs)}")
    sandbox.wait_idle()


@pytest.mark.usefixtures("declared")
def test_limit_of_a_user_applies_only_to_that_user(sandbox: Cluster) -> None:
    jobs = [submit(sandbox, "--mem=100 -o /dev/null", "sleep 60", user="bob") for _ in range(2)]
    other = submit(sandbox, "--mem=100 -o /dev/null", "true")
    try:
        wait_for_state(sandbox, other, "COMPLETED")
        reasons = sandbox.exec("ctl", f"squeue -h -j {','.join(jobs)} -t PD -o %r").stdout
        assert "AssocMaxJobsLimit" in reasons
    finally:
        sandbox.exec("ctl", f"scancel {' '.join(jobs)}")
    sandbox.wait_idle()


def test_user_without_association_cannot_run(sandbox: Cluster) -> None:
    sandbox.exec("login", "useradd -m mallory")
    try:
        done = sandbox.exec("login", "srun true", user="mallory", check=False)
        assert done.returncode != 0
        assert "Invalid account" in done.stderr
    finally:
        sandbox.exec("login", "userdel -r mallory")
