"""Tests that no change of the inventory loses a job, and no user is partially removed."""

from __future__ import annotations

import dataclasses
import json
import shutil
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from conftest import Cluster, recap
from test_slurm_jobs import submit, wait_for_state

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.proves("slurm", "users")

CONFIGURATION = "cat /etc/slurm/slurm.conf; stat -c %Y /etc/slurm/slurm.conf"
ONLY = ("--limit", "ctl", "--tags", "slurm_configure")
ON_GPU2 = "-w gpu2 --mem=64 -o /dev/null"


@pytest.fixture
def jobs(sandbox: Cluster) -> Iterator[tuple[str, str]]:
    """Start a job on gpu2, and one that waits for that node."""
    running = submit(sandbox, ON_GPU2, "sleep 900")
    waiting = submit(sandbox, f"{ON_GPU2} --hold", "true")
    wait_for_state(sandbox, running, "RUNNING")
    yield running, waiting
    sandbox.exec("ctl", f"scancel {running} {waiting}", check=False)
    sandbox.wait_idle()


@dataclasses.dataclass(frozen=True)
class Changed(Cluster):
    """The same cluster with another inventory."""

    folder: Path

    @property
    def inventory(self) -> Path:
        """Return the other inventory."""
        return self.folder


@pytest.fixture
def without_gpu2(sandbox: Cluster) -> Iterator[Changed]:
    """Return the sandbox with an inventory without gpu2, and its existing secrets."""
    folder = sandbox.state / "inventory_without_gpu2"
    shutil.copytree(sandbox.inventory, folder, symlinks=True)
    hosts = yaml.safe_load((folder / "hosts.yml").read_text())
    del hosts["all"]["children"]["sandbox_gpu"]["hosts"]["gpu2"]
    (folder / "hosts.yml").write_text(yaml.safe_dump(hosts))
    (folder / "group_vars/all/zz_site.yml").write_text(yaml.safe_dump({"cluster_dir": str(sandbox.state)}))
    yield Changed(sandbox.name, folder)
    shutil.rmtree(folder)


def state(sandbox: Cluster, job: str) -> str:
    """Return the state of a job."""
    return sandbox.exec("ctl", f"squeue -h -j {job} -o %T", check=False).stdout.strip()


def refused(sandbox: Cluster, playbook: str, *arguments: str) -> str:
    """Check that a playbook fails without changes and keeps slurm.conf; return its output."""
    before = sandbox.exec("ctl", CONFIGURATION).stdout
    done = sandbox.playbook(playbook, *arguments)
    assert done.returncode != 0, done.stdout
    assert all(counts["changed"] == 0 for counts in recap(done.stdout).values())
    assert sandbox.exec("ctl", CONFIGURATION).stdout == before
    return " ".join(done.stdout.split())


def bring_gpu2_back(sandbox: Cluster) -> None:
    """Add gpu2 to the cluster again, from any state."""
    assert sandbox.playbook("slurm.yml", *ONLY).returncode == 0
    sandbox.exec("gpu2", "systemctl restart slurmd")

    def is_idle() -> bool:
        # Fails if there is nothing to resume.
        sandbox.exec("ctl", "scontrol update nodename=gpu2 state=resume", check=False)
        return sandbox.node_states().get("gpu2") == "idle"

    sandbox.wait_until(is_idle, "gpu2 does not come back", 120)


@pytest.mark.fault(
    "a job on a node that leaves the inventory",
    says="(runs on gpu2): node gpu2 is missing from the new slurm.conf",
    heals="drain the node, wait for the job, run again",
)
def test_node_with_jobs_is_not_removed(sandbox: Cluster, jobs: tuple[str, str], without_gpu2: Changed) -> None:
    running, waiting = jobs
    # The second run skips the preflight.
    for playbook, arguments in (("preflight.yml", ("--check",)), ("slurm.yml", ONLY)):
        said = refused(without_gpu2, playbook, *arguments)
        assert f"job {running} of alice (runs on gpu2): node gpu2 is missing from the new slurm.conf" in said
        assert f"job {waiting} of alice (waits): node gpu2 is missing from the new slurm.conf" in said
        assert "scontrol update nodename=gpu2 state=drain" in said
        assert (state(sandbox, running), state(sandbox, waiting)) == ("RUNNING", "PENDING")


@pytest.mark.fault(
    "a job in a partition that leaves the inventory",
    says="of alice (waits): partition extra is missing from the new slurm.conf",
    heals="wait for the job, run again",
)
def test_partition_with_jobs_is_not_removed(sandbox: Cluster) -> None:
    both = [{"name": "batch", "default": True}, {"name": "extra", "params": {"Hidden": True}}]
    job = ""
    try:
        made = sandbox.playbook("slurm.yml", *ONLY, "-e", json.dumps({"slurm_partitions": both}))
        assert made.returncode == 0, made.stdout
        # Slurm would cancel a waiting job of several partitions when one of them is removed.
        job = submit(sandbox, "-p batch,extra --hold -o /dev/null", "true")
        said = refused(sandbox, "slurm.yml", *ONLY)
        assert f"job {job} of alice (waits): partition extra is missing from the new slurm.conf" in said
        assert state(sandbox, job) == "PENDING"
    finally:
        sandbox.exec("ctl", f"scancel {job}", check=False)
        done = sandbox.playbook("slurm.yml", *ONLY)
    assert done.returncode == 0, done.stdout
    assert "extra" not in sandbox.exec("ctl", "sinfo -ah").stdout


def test_jobs_are_lost_only_with_explicit_option(sandbox: Cluster, without_gpu2: Changed) -> None:
    job = submit(sandbox, f"{ON_GPU2} --hold", "true")
    try:
        done = without_gpu2.playbook("slurm.yml", *ONLY, "-e", "slurm_allow_job_loss=true")
        assert done.returncode == 0, done.stdout
        assert f"this run kills these jobs: {job}" in " ".join((done.stdout + done.stderr).split())
        assert "gpu2" not in sandbox.node_states()
        assert state(sandbox, job) == ""
    finally:
        sandbox.exec("ctl", f"scancel {job}", check=False)
        bring_gpu2_back(sandbox)


def test_drained_node_without_jobs_is_removed(sandbox: Cluster, without_gpu2: Changed) -> None:
    try:
        sandbox.exec("ctl", "scontrol update nodename=gpu2 state=drain reason='removed from the cluster'")
        looked = without_gpu2.playbook("preflight.yml")
        assert looked.returncode == 0, looked.stdout
        assert "gpu2 leaves the cluster; it is in Slurm but not in the inventory" in " ".join(looked.stdout.split())
        done = without_gpu2.playbook("slurm.yml", *ONLY)
        assert done.returncode == 0, done.stdout
        assert "gpu2" not in sandbox.node_states()
    finally:
        bring_gpu2_back(sandbox)


@pytest.mark.fault(
    "a job on a node that is to be removed",
    says="of alice on gpu2, after 0 s. No job was cancelled, and the nodes stay drained",
    heals="run `remove_nodes` again when the job has ended",
)
def test_nodes_are_removed_only_after_their_jobs_have_ended(sandbox: Cluster) -> None:
    """The job continues, and the other node accepts new jobs all the while."""
    job = submit(sandbox, ON_GPU2, "sleep 900")
    wait_for_state(sandbox, job, "RUNNING")
    leave = ("remove_nodes.yml", "-e", "remove_nodes=gpu2")
    try:
        done = sandbox.playbook(*leave)
        assert done.returncode == 2, done.stdout
        said = " ".join(done.stdout.split())
        assert f"gpu2: job {job} of alice on gpu2, after 0 s. No job was cancelled, and the nodes stay drained" in said
        assert state(sandbox, job) == "RUNNING"
        assert sandbox.node_states()["gpu2"] == "drng"
        assert "busbar: leaves the cluster" in sandbox.exec("ctl", "sinfo -R -h -o %E").stdout
        assert sandbox.exec("login", "srun --quiet -w gpu1 --mem=64 hostname", user="alice").stdout == "gpu1\n"
        sandbox.exec("ctl", f"scancel {job}")
        done = sandbox.playbook(*leave, "-e", "remove_nodes_wait=120")
        assert done.returncode == 0, done.stdout
        assert sandbox.exec("gpu2", "systemctl is-active slurmd", check=False).stdout == "inactive\n"
        assert sandbox.exec("gpu2", "systemctl is-enabled slurmd", check=False).stdout == "disabled\n"
        assert {counts["changed"] for counts in recap(sandbox.playbook(*leave).stdout).values()} == {0}
    finally:
        sandbox.exec("ctl", f"scancel {job}", check=False)
        sandbox.exec("gpu2", "systemctl enable -q slurmd")
        bring_gpu2_back(sandbox)


def test_check_mode_names_the_jobs_on_a_node(sandbox: Cluster) -> None:
    """For every playbook that drains the node, the job is named with its user, and nothing unchecked is reported."""
    job = submit(sandbox, ON_GPU2, "sleep 900")
    wait_for_state(sandbox, job, "RUNNING")
    same = ("-e", "replace_node_same_machine=true")
    try:
        for playbook, option, more in (
            ("remove_nodes", "remove_nodes", ()),
            ("uninstall", "uninstall_nodes", ()),
            ("replace_node", "replace_node", same),
            ("update_nodes", "update_nodes", ()),
        ):
            done = sandbox.playbook(f"{playbook}.yml", "--check", "-e", f"{option}=gpu2", *more)
            said = " ".join(done.stdout.split())
            wanted = "waits for gpu2:" if playbook == "update_nodes" else "would drain gpu2 and wait for"
            assert f"{wanted} job {job} of alice" in said, done.stdout
            assert "no jobs on" not in said
            assert "gpu2, idle" not in said
            assert sandbox.node_states()["gpu2"] in {"mix", "alloc"}
        free = " ".join(sandbox.playbook("remove_nodes.yml", "--check", "-e", "remove_nodes=gpu1").stdout.split())
        assert "would drain gpu1; no jobs on gpu1 now" in free
    finally:
        sandbox.exec("ctl", f"scancel {job}", check=False)
        sandbox.wait_idle()


def test_controller_or_unknown_node_is_not_removed(sandbox: Cluster) -> None:
    for node, said in (
        ("gpu7", "remove_nodes: not nodes in Slurm: gpu7"),
        ("ctl", "remove_nodes: not nodes in Slurm: ctl"),
    ):
        done = sandbox.playbook("remove_nodes.yml", "-e", f"remove_nodes={node}")
        assert done.returncode == 2, done.stdout
        assert said in " ".join(done.stdout.split())
        assert set(sandbox.node_states().values()) <= {"idle"}


def test_accounting_user_with_jobs_is_not_removed(sandbox: Cluster, jobs: tuple[str, str]) -> None:
    gone = json.dumps({"users_accounts": [{"name": "alice", "slurm": {"state": "absent"}}]})
    said = refused(sandbox, "slurm.yml", "--limit", "ctl", "--tags", "slurm_accounting", "-e", gone)
    assert f"job {jobs[0]} of alice (runs on gpu2): user alice is removed from accounting (users_accounts)" in said
    assert sandbox.exec("ctl", "sacctmgr -nP show user alice format=User").stdout.strip() == "alice"


@pytest.mark.fault(
    "slurmctld is down while a node is removed",
    says="removes node gpu2, but slurmctld is not running",
    heals="the next run without the removal starts slurmctld",
)
def test_removal_needs_a_running_slurmctld_and_a_plain_run_repairs_it(sandbox: Cluster, without_gpu2: Changed) -> None:
    try:
        sandbox.exec("ctl", "systemctl stop slurmctld")
        said = refused(without_gpu2, "slurm.yml", *ONLY)
        assert "removes node gpu2, but slurmctld is not running" in said
        sandbox.exec("ctl", "echo 'Garbage=%%' >> /etc/slurm/slurm.conf")
    finally:
        healed = sandbox.playbook("slurm.yml", *ONLY)
    assert healed.returncode == 0, healed.stdout
    assert "Garbage" not in sandbox.exec("ctl", "cat /etc/slurm/slurm.conf").stdout
    sandbox.wait_idle()


def without_alice(sandbox: Cluster) -> str:
    """Return the site's users as variables, with alice to be removed."""
    accounts: list[dict[str, Any]] = yaml.safe_load((sandbox.inventory / "group_vars/all/zz_sandbox.yml").read_text())[
        "users_accounts"
    ]
    kept = [account for account in accounts if account["name"] != "alice"]
    return json.dumps({"users_accounts": [*kept, {"name": "alice", "state": "absent"}]})


@pytest.mark.fault(
    "a user is removed while a job of hers runs",
    says="ctl: users_accounts: user alice cannot be removed yet",
    heals="wait for the job, run again",
)
def test_user_with_jobs_is_not_removed_from_any_host(sandbox: Cluster, jobs: tuple[str, str]) -> None:
    said = refused(sandbox, "base.yml", "--tags", "users", "-e", without_alice(sandbox))
    assert "ctl: users_accounts: user alice cannot be removed yet" in said
    assert f"job {jobs[0]} (on gpu2)" in said
    assert f"job {jobs[1]} (waiting)" in said
    assert "gpu2: users_accounts: user alice cannot be removed yet (running: process" in said
    assert f"job {jobs[0]})" in said
    assert "scancel --user=alice" in said
    for node in ["ctl", "login", *sandbox.compute]:
        assert "uid=2001(alice)" in sandbox.exec(node, "id alice").stdout
    # Also on a node that has no information about a waiting job.
    said = refused(sandbox, "base.yml", "--tags", "users", "--limit", "gpu2", "-e", without_alice(sandbox))
    assert "gpu2: users_accounts: user alice cannot be removed yet" in said
    assert state(sandbox, jobs[0]) == "RUNNING"


@pytest.mark.core
def test_job_longer_than_its_partition_allows_is_refused_immediately(sandbox: Cluster) -> None:
    sandbox.exec("ctl", "scontrol update partitionname=batch maxtime=2-0")
    try:
        done = sandbox.exec("login", "srun --time=3-0 true", user="alice", check=False, timeout=30)
        assert done.returncode != 0
        assert "Requested time limit is invalid" in done.stderr
    finally:
        sandbox.exec("ctl", "scontrol update partitionname=batch maxtime=infinite")
