"""Tests of options: private /tmp per job, and SSH without a job."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from conftest import recap

if TYPE_CHECKING:
    from collections.abc import Iterator

    from conftest import Cluster

pytestmark = pytest.mark.proves("slurm")

OPTIONS = '{"slurm_private_tmp": true, "slurm_pam_adopt": false}'
# Kernel 6.18 counts namespaces per CPU and therefore refuses about every second mount namespace that Slurm creates for
# a job inside a container. Nodes that are not containers are not affected.
ALICE: dict[str, Any] = {"user": "alice", "check": False}


@pytest.fixture(scope="module")
def options(sandbox: Cluster) -> Iterator[None]:
    """Set both options to non-default values; restored at the end."""
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
def test_every_job_has_its_own_tmp(sandbox: Cluster) -> None:
    sandbox.exec("gpu1", "touch /tmp/of-the-node")
    try:
        command = "srun --quiet -w gpu1 --mem=100 bash -c 'ls -A /tmp /dev/shm; touch /tmp/mine /dev/shm/mine'"
        listings = [done.stdout.split() for done in (sandbox.exec("login", command, **ALICE) for _ in range(20))]
        # If Slurm cannot mount, it refuses the job: no job ever sees the node's own files or those of an earlier job.
        ran = [found for found in listings if found]
        assert len(ran) >= 2
        assert [found for found in ran if found != ["/dev/shm:", "/tmp:"]] == []  # noqa: S108
        assert sandbox.exec("gpu1", "ls /tmp/mine /dev/shm/mine", check=False).stdout == ""
    finally:
        sandbox.exec("gpu1", "rm /tmp/of-the-node")


@pytest.mark.usefixtures("options")
def test_ssh_without_a_job_can_be_enabled(sandbox: Cluster) -> None:
    assert sandbox.exec("login", "ssh -o BatchMode=yes gpu1 whoami", user="alice").stdout.strip() == "alice"
    assert "busbar" not in sandbox.exec("gpu1", "cat /etc/pam.d/sshd").stdout
