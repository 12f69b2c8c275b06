"""Tests of a scratch directory for every job: private, removed after the job, and no other data removed."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest
from conftest import recap
from test_slurm_jobs import submit, wait_for_state

if TYPE_CHECKING:
    from collections.abc import Iterator

    from conftest import Cluster

pytestmark = pytest.mark.proves("scratch")

SCRIPTS = "/usr/local/lib/busbar"
ON = ("-e", "scratch_per_job=true")
SRUN = "srun --quiet -w gpu1 --mem=100"


def storage(sandbox: Cluster, *arguments: str) -> str:
    """Run the scratch tasks of the playbook and return the output."""
    done = sandbox.playbook("storage.yml", "--tags", "scratch", *arguments)
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.fixture(scope="module", autouse=True)
def per_job(sandbox: Cluster) -> Iterator[None]:
    """Enable a directory per job; Slurm is restored at the end."""
    sandbox.wait_idle()
    storage(sandbox, *ON)
    done = sandbox.playbook("slurm.yml", "--tags", "slurm_configure", *ON)
    assert done.returncode == 0, done.stdout
    yield
    done = sandbox.playbook("slurm.yml", "--tags", "slurm_configure")
    assert done.returncode == 0, done.stdout
    assert "Prolog=" not in sandbox.exec("ctl", "cat /etc/slurm/slurm.conf").stdout
    for node in sandbox.compute:
        sandbox.exec(node, "systemctl disable -q busbar-scratch-clean && rm -rf /scratch")


def leave_nothing(sandbox: Cluster, node: str = "gpu1") -> None:
    """Wait until no directory is left and the node is idle."""
    sandbox.wait_until(
        lambda: sandbox.exec(node, "ls -A /scratch").stdout == "",
        f"left over on {node}: {sandbox.exec(node, 'ls -lA /scratch').stdout}",
    )
    sandbox.wait_idle()


def test_second_run_changes_nothing(sandbox: Cluster) -> None:
    for arguments in (ON, (*ON, "--check", "--diff")):
        assert {counts["changed"] for counts in recap(storage(sandbox, *arguments)).values()} == {0}


@pytest.mark.core
def test_job_writes_to_its_own_directory_which_is_removed(sandbox: Cluster) -> None:
    command = f"{SRUN} bash -c 'echo data >$SCRATCH/mine; stat -c \"%n %U %G %a\" $SCRATCH; echo $SLURM_JOB_ID $TMPDIR'"
    name, owner, group, mode, job, tmpdir = sandbox.exec("login", command, user="alice").stdout.split()
    assert name == tmpdir == f"/scratch/{job}"
    assert (owner, mode) == ("alice", "700")
    assert group == sandbox.exec("gpu1", "id -gn alice").stdout.strip()
    leave_nothing(sandbox)


def test_batch_script_has_the_directory_too(sandbox: Cluster) -> None:
    job = submit(sandbox, "-w gpu1 --mem=100 -o /tmp/scratch.%j", "touch $SCRATCH/a; mktemp; srun -n1 ls $SCRATCH")
    wait_for_state(sandbox, job, "COMPLETED")
    made, seen = sandbox.exec("gpu1", f"cat /tmp/scratch.{job}; rm /tmp/scratch.{job}").stdout.split()[:2]
    assert made.startswith(f"/scratch/{job}/")
    assert seen == "a"
    leave_nothing(sandbox)


def test_directory_is_private_and_users_cannot_create_others(sandbox: Cluster) -> None:
    job = submit(sandbox, "-w gpu1 --mem=100 -o /dev/null", "echo secret >$SCRATCH/secret; sleep 60")
    try:
        sandbox.wait_until(
            lambda: sandbox.exec("gpu1", f"cat /scratch/{job}/secret", check=False).stdout == "secret\n", "no secret"
        )
        for attempt in (f"cat /scratch/{job}/secret", f"ls /scratch/{job}", "ls /scratch", "mkdir /scratch/999999"):
            refused = sandbox.exec("gpu1", attempt, user="bob", check=False)
            assert "Permission denied" in refused.stderr, attempt
        assert "Permission denied" in sandbox.exec("gpu1", "ln -s / /scratch/1", user="alice", check=False).stderr
    finally:
        sandbox.exec("ctl", f"scancel {job}")
    leave_nothing(sandbox)


def test_each_array_task_has_its_own_directory(sandbox: Cluster) -> None:
    job = submit(sandbox, "-a 1-3 -w gpu1 --mem=100 -o /tmp/array.%A.%a", "touch $SCRATCH/x; echo $SCRATCH; sleep 3")
    sandbox.wait_until(
        lambda: sandbox.exec("ctl", f"squeue -h -j {job}", check=False).stdout == "", "the array does not end"
    )
    found = sandbox.exec("gpu1", f"cat /tmp/array.{job}.*; rm /tmp/array.{job}.*").stdout.split()
    assert len(set(found)) == 3
    leave_nothing(sandbox)


def test_all_nodes_of_a_job_have_a_directory(sandbox: Cluster) -> None:
    nodes = len(sandbox.compute)
    command = f"srun --quiet -N {nodes} --mem=100 bash -c 'touch $SCRATCH/x && stat -c %a $SCRATCH'"
    assert sandbox.exec("login", command, user="alice").stdout.split() == ["700"] * nodes
    for node in sandbox.compute:
        leave_nothing(sandbox, node)


def test_cleanup_does_not_follow_links_of_a_user(sandbox: Cluster) -> None:
    sandbox.exec(
        "gpu1", "mkdir -p /srv/precious/deep && echo kept >/srv/precious/deep/file && chmod -R a+rwX /srv/precious"
    )
    sandbox.exec("gpu1", "echo kept >/shared/home/bob/file && chown bob /shared/home/bob/file")
    try:
        plant = (
            "ln -s /srv/precious $SCRATCH/link; ln -s /srv/precious/deep/file $SCRATCH/file; ln -s / $SCRATCH/root; "
            "ln -s .. $SCRATCH/up; ln -s /shared/home/bob $SCRATCH/bob; mkdir -p $SCRATCH/a/b; ln -s / $SCRATCH/a/b/c; "
            'mkdir -m 0 $SCRATCH/closed; touch "$SCRATCH/-rf" "$SCRATCH/a b"'
        )
        sandbox.exec("login", f"{SRUN} bash -c {plant!r}", user="alice")
        leave_nothing(sandbox)
        assert sandbox.exec("gpu1", "cat /srv/precious/deep/file /shared/home/bob/file").stdout == "kept\nkept\n"
    finally:
        sandbox.exec("gpu1", "rm -rf /srv/precious /shared/home/bob/file")


def test_directory_with_a_mount_is_kept_and_node_stays_in_service(sandbox: Cluster) -> None:
    """Also covers a bind mount of the same file system, which `rm --one-file-system` would not detect."""
    sandbox.exec("gpu1", "mkdir -p /srv/precious && echo kept >/srv/precious/file")
    job = submit(sandbox, "-w gpu1 --mem=100 -o /dev/null", "mkdir $SCRATCH/mnt; sleep 60")
    place = f"/scratch/{job}/mnt"
    try:
        sandbox.wait_until(lambda: sandbox.exec("gpu1", f"test -d {place}", check=False).returncode == 0, "no job")
        sandbox.exec("gpu1", f"mount --bind /srv/precious {place}")
        sandbox.exec("ctl", f"scancel {job}")
        wait_for_state(sandbox, job, "CANCELLED")
        sandbox.wait_idle()
        assert sandbox.exec("gpu1", f"cat {place}/file").stdout == "kept\n"
        told = sandbox.exec("gpu1", "journalctl -t busbar-scratch -o cat --no-pager").stdout
        assert f"/scratch/{job} contains a mount, so it is kept" in told
    finally:
        sandbox.exec("gpu1", f"umount {place}; rm -rf /scratch/{job} /srv/precious")


def test_foreign_file_in_place_of_the_directory_is_left_alone(sandbox: Cluster) -> None:
    """Only root could create it, but the epilog does not rely on that; the epilog never fails."""
    sandbox.exec(
        "gpu1", "mkdir -p /srv/precious && echo kept >/srv/precious/file && ln -s /srv/precious /scratch/999998"
    )
    sandbox.exec("gpu1", "mkdir /scratch/999997 && chown bob /scratch/999997")
    try:
        for job in (999998, 999997):
            uid = sandbox.exec("gpu1", "id -u alice").stdout.strip()
            sandbox.exec("gpu1", f"SLURM_JOB_ID={job} SLURM_JOB_UID={uid} {SCRIPTS}/scratch_epilog")
        assert sandbox.exec("gpu1", "cat /srv/precious/file").stdout == "kept\n"
        assert sandbox.exec("gpu1", "ls /scratch").stdout.split() == ["999997", "999998"]
    finally:
        sandbox.exec("gpu1", "rm -rf /scratch/999998 /scratch/999997 /srv/precious")


def test_directory_of_an_earlier_job_with_the_same_id_is_not_reused(sandbox: Cluster) -> None:
    """Job IDs start again after a loss of the controller's state."""
    uid = sandbox.exec("gpu1", "id -u alice").stdout.strip()
    call = f"SLURM_JOB_ID=999996 SLURM_JOB_UID={uid} {SCRIPTS}"
    sandbox.exec("gpu1", "mkdir /scratch/999996 && echo old >/scratch/999996/old && chown bob /scratch/999996")
    sandbox.exec("gpu1", f"{call}/scratch_prolog")
    assert sandbox.exec("gpu1", "stat -c %U /scratch/999996; ls -A /scratch/999996").stdout.split() == ["alice"]
    sandbox.exec("gpu1", f"touch /scratch/999996/kept; {call}/scratch_prolog")
    assert sandbox.exec("gpu1", "ls -A /scratch/999996").stdout.split() == ["kept"]
    sandbox.exec("gpu1", f"{call}/scratch_epilog")
    assert sandbox.exec("gpu1", "ls -A /scratch").stdout == ""


@pytest.mark.fault(
    "local scratch that is gone",
    says="/scratch is missing, not mounted",
    heals="repair the disk, resume the node",
)
def test_node_with_missing_scratch_is_drained_unless_scratch_is_optional(sandbox: Cluster) -> None:
    config = f"{SCRIPTS}/scratch_jobs.conf"
    sandbox.exec("gpu1", f"sed -i s/^mounted=no/mounted=yes/ {config}")
    try:
        job = submit(sandbox, "-w gpu1 --mem=100 -o /dev/null", "true")
        sandbox.wait_until(lambda: sandbox.node_states()["gpu1"].startswith("drain"), "gpu1 is not drained")
        said = sandbox.exec("gpu1", "journalctl -t busbar-scratch -o cat --no-pager").stdout
        assert f"cannot create the directory of job {job}: /scratch is missing, not mounted" in said
        sandbox.exec("ctl", f"scancel {job}")
        sandbox.exec("gpu1", f"sed -i s/^required=yes/required=no/ {config}")
        sandbox.exec("ctl", "scontrol update nodename=gpu1 state=resume")
        sandbox.wait_idle()
        shown = sandbox.exec("login", f"{SRUN} bash -c 'echo ${{SCRATCH:-none}}'", user="alice").stdout
        assert shown.strip() == "none"
    finally:
        sandbox.exec("gpu1", f"sed -i 's/^mounted=yes/mounted=no/; s/^required=no/required=yes/' {config}")
        sandbox.exec("ctl", "scontrol update nodename=gpu1 state=resume", check=False)
        sandbox.wait_idle()


def test_directories_from_before_a_crash_are_removed_at_boot(sandbox: Cluster) -> None:
    """A container does not boot a kernel, so a copy of the script reads a boot time in the future."""
    sandbox.exec("gpu1", "mkdir /scratch/999995 /scratch/not-a-job")
    sandbox.exec("gpu1", "systemctl start busbar-scratch-clean")
    assert sandbox.exec("gpu1", "ls /scratch").stdout.split() == ["999995", "not-a-job"]
    boot = f"echo btime {int(time.time()) + 60} >/srv/clean/stat"
    copy = f"sed s,/proc/stat,/srv/clean/stat, {SCRIPTS}/scratch_clean >/srv/clean/scratch_clean"
    config = f"cp {SCRIPTS}/scratch_jobs.conf /srv/clean"
    sandbox.exec("gpu1", f"mkdir /srv/clean; {boot}; {copy}; {config}; bash /srv/clean/scratch_clean; rm -r /srv/clean")
    assert sandbox.exec("gpu1", "ls /scratch").stdout.split() == ["not-a-job"]
    sandbox.exec("gpu1", "rmdir /scratch/not-a-job")
