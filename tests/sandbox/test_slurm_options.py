"""Private /tmp per job and SSH only with a job, where a site asks for them."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest
from conftest import recap
from test_slurm_jobs import submit

if TYPE_CHECKING:
    from collections.abc import Iterator

    from conftest import Cluster

pytestmark = pytest.mark.proves("slurm")

OPTIONS = '{"slurm_private_tmp": true, "slurm_pam_adopt": true}'
# Kernel 6.18 counts namespaces per CPU, and so refuses about every second mount of a namespace that Slurm makes for a
# job inside a container. Nodes that are no containers are not concerned.
ALICE: dict[str, Any] = {"user": "alice", "check": False}
SSH = "ssh -o BatchMode=yes gpu1"


@pytest.fixture(scope="module")
def options(sandbox: Cluster) -> Iterator[None]:
    """Both options on; off again at the end."""
    sandbox.wait_idle()
    before = sandbox.exec("gpu1", "cat /etc/pam.d/sshd").stdout
    done = sandbox.playbook("slurm.yml", "-e", OPTIONS)
    assert done.returncode == 0, done.stdout
    yield
    done = sandbox.playbook("slurm.yml", "--tags", "slurm_configure")
    assert done.returncode == 0, done.stdout
    assert sandbox.exec("gpu1", "cat /etc/pam.d/sshd").stdout == before
    again = sandbox.playbook("slurm.yml", "--tags", "slurm_configure")
    assert {counts["changed"] for counts in recap(again.stdout).values()} == {0}


@pytest.mark.usefixtures("options")
def test_every_job_has_a_tmp_of_its_own(sandbox: Cluster) -> None:
    sandbox.exec("gpu1", "touch /tmp/of-the-node")
    try:
        command = "srun --quiet -w gpu1 --mem=100 bash -c 'ls -A /tmp /dev/shm; touch /tmp/mine /dev/shm/mine'"
        listings = [done.stdout.split() for done in (sandbox.exec("login", command, **ALICE) for _ in range(20))]
        assert [found for found in listings if found][:2] == [["/dev/shm:", "/tmp:"]] * 2  # noqa: S108
        assert sandbox.exec("gpu1", "ls /tmp/mine /dev/shm/mine", check=False).stdout == ""
    finally:
        sandbox.exec("gpu1", "rm /tmp/of-the-node")


@pytest.mark.usefixtures("options")
def test_ssh_only_with_a_job_and_into_the_job(sandbox: Cluster) -> None:
    refused = sandbox.exec("login", f"{SSH} true", user="alice", check=False)
    assert refused.returncode != 0
    assert "no active jobs on this node" in refused.stderr
    for _ in range(20):
        job = submit(sandbox, "-w gpu1 --mem=100 -o /dev/null", "sleep 60")
        time.sleep(2)
        if "RUNNING" in sandbox.exec("ctl", f"squeue -h -j {job} -o %T", check=False).stdout:
            break
        sandbox.exec("ctl", f"scancel {job}", check=False)
    try:
        assert f"/job_{job}/" in sandbox.exec("login", f"{SSH} cat /proc/self/cgroup", user="alice").stdout
    finally:
        sandbox.exec("ctl", f"scancel {job}")
    sandbox.wait_idle()


@pytest.mark.usefixtures("options")
def test_the_admin_is_never_locked_out(sandbox: Cluster) -> None:
    done = sandbox.playbook("slurm.yml", "--limit", "gpu1", "--tags", "slurm_verify")
    assert done.returncode == 0, done.stdout
