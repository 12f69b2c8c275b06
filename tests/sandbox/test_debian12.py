"""Tests of a site on Debian 12: Slurm 22.05, which has no sackd and another name for PMIx."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from conftest import Cluster, recap
from wheel_user import PROVE, install_wheel

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.proves("slurm", "slurm_metrics", "ssh")]


@pytest.fixture(scope="module")
def older(sandbox_name: str) -> Iterator[Cluster]:
    """Return a provisioned and validated sandbox of Debian 12 with one compute node."""
    cluster = Cluster(f"{sandbox_name}-12")
    made = cluster.busbar("sandbox", "up", "--name", cluster.name, "--distribution", "debian12", "--compute", "1")
    assert made.returncode == 0, made.stderr
    done = cluster.busbar("provision", "--sandbox", "--name", cluster.name)
    assert done.returncode == 0, done.stdout + done.stderr
    yield cluster
    gone = cluster.busbar("sandbox", "down", "--name", cluster.name)
    assert gone.returncode == 0, gone.stderr


def test_user_gets_the_requested_gpu(older: Cluster) -> None:
    assert older.exec("ctl", "slurmctld -V").stdout.startswith("slurm-wlm 22.05")
    done = older.exec("login", "srun --mpi=pmix --gpus-per-node=1 nvidia-smi -L", user="alice")
    assert done.stdout == "GPU 0: Simulated GPU (UUID: GPU-simulated-gpu1-0)\n"


def test_ssh_requires_a_job_and_is_confined_to_it(older: Cluster) -> None:
    ssh = "ssh -o BatchMode=yes gpu1"
    refused = older.exec("login", f"{ssh} true", user="alice", check=False)
    assert (refused.returncode, "you have no active jobs on this node" in refused.stderr) == (255, True)
    command = f"salloc --quiet -n1 --mem=64 --gpus-per-node=1 {ssh} cat /proc/self/cgroup"
    assert "/job_" in older.exec("login", command, user="alice").stdout
    closed = older.exec("login", "ssh -o BatchMode=yes ctl true", user="alice", check=False)
    assert (closed.returncode, "ctl takes no users. Log in to login." in closed.stderr) == (255, True)


def test_accounting_records_the_job(older: Cluster) -> None:
    older.exec("login", "srun --job-name=known true", user="alice")
    listing = "sacct -nX --name=known -o Account,State%10"
    older.wait_until(lambda: "COMPLETED" in older.exec("ctl", listing).stdout, "the job is not in the accounting", 30)
    assert older.exec("ctl", listing).stdout.split() == ["research", "COMPLETED"]


def test_slurm_metrics_are_collected(older: Cluster) -> None:
    file = "/var/lib/prometheus/node-exporter/busbar_slurm.prom"
    wanted = (
        'busbar_slurm_up{controller="ctl"} 1.0',
        "busbar_slurm_slurmdbd_up 1.0",
        'busbar_slurm_gpus{type="sim"} 2.0',
        'busbar_slurm_jobs{partition="batch",state="running"} 0.0',
        "\nbusbar_slurm_scheduler_threads ",
    )
    older.wait_until(
        lambda: all(line in older.exec("ctl", f"cat {file}").stdout for line in wanted),
        f"not all there: {older.exec('ctl', f'cat {file}', check=False).stdout}",
    )


def test_ordinary_user_proves_the_node(older: Cluster, tmp_path_factory: pytest.TempPathFactory) -> None:
    alice = install_wheel(older, tmp_path_factory)
    done = alice.run(f"{PROVE} --nodes 1")
    assert done.returncode == 0, done.stdout + done.stderr
    assert (alice.report()["verdict"], alice.report()["nodes"]) == ("PASS", ["gpu1"])
    alice.wait_for_none()


def test_second_run_changes_nothing(older: Cluster) -> None:
    done = older.playbook("slurm.yml")
    assert done.returncode == 0, done.stdout[-2000:]
    assert {counts["changed"] for counts in recap(done.stdout).values()} == {0}


def test_unsupported_slurm_upgrade_is_refused(older: Cluster) -> None:
    given = {"slurm_repository": {"release": "24.11", "suite": "trixie"}}
    done = older.playbook("upgrade_slurm.yml", "-e", json.dumps(given))
    said = " ".join(done.stdout.split())
    assert done.returncode == 2, said
    assert "changed nothing: ctl,gpu1,login: slurm_repository: 22.05.8" in said, said
    assert "only accepts state and jobs of 24.05, 23.11, 23.02 remedy: upgrade in steps: 23.11, then 24.11" in said
    assert {counts["changed"] for counts in recap(done.stdout).values()} == {0}
    for node in ("ctl", "gpu1", "login"):
        assert older.exec(node, "ls /etc/apt/preferences.d").stdout == ""
