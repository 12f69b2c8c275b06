"""Tests of a background validation: it uses only idle nodes, and every job preempts it."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING, Any

import pytest
from conftest import TOP, as_json, plain_environment, recap

if TYPE_CHECKING:
    from collections.abc import Iterator

    from conftest import Cluster

pytestmark = pytest.mark.proves("validation", "slurm")

USAGE = 2
PARTITION = "-eslurm_checks_partition=checks"
# Long enough for a job of alice to start in the meantime.
LONG = ("-e", "validation_stages=cluster", "-e", "validation_seconds_per_size=20", "-e", "validation_max_bytes=4M")


@pytest.fixture(scope="module")
def checks(sandbox: Cluster) -> Iterator[None]:
    """Enable the partition for checks; restored at the end."""
    sandbox.wait_idle()
    before = sandbox.exec("ctl", "cat /etc/slurm/slurm.conf").stdout
    for changed in (True, False):
        done = sandbox.playbook("slurm.yml", "--tags", "slurm_configure", PARTITION)
        assert done.returncode == 0, done.stdout
        assert any(counts["changed"] for counts in recap(done.stdout).values()) == changed
    yield
    done = sandbox.playbook("slurm.yml", "--tags", "slurm_configure")
    assert done.returncode == 0, done.stdout
    assert sandbox.exec("ctl", "cat /etc/slurm/slurm.conf").stdout == before


def command(sandbox: Cluster, *arguments: str) -> list[str]:
    """Return the arguments of a background validation."""
    where = ["validate", "--sandbox", "--name", sandbox.name, "-t", "validation_run"]
    return [*where, "-e", "validation_background=true", PARTITION, *arguments]


def queue(sandbox: Cluster, what: str) -> str:
    return sandbox.exec("ctl", f"squeue -h -a {what}").stdout.strip()


def report(sandbox: Cluster) -> dict[str, Any]:
    found: dict[str, Any] = as_json((sandbox.state / "reports/latest/report.json").read_text(encoding="utf-8"))
    return found


@pytest.mark.usefixtures("checks")
def test_users_see_only_their_partition(sandbox: Cluster) -> None:
    shown = sandbox.exec("login", "sinfo -h -o %R", user="alice").stdout.split()
    assert set(shown) == {"batch"}
    declared = sandbox.exec("ctl", "scontrol -o show partition checks").stdout.split()
    assert {"PreemptMode=CANCEL", "PriorityTier=0", "Hidden=YES"} <= set(declared)


@pytest.mark.usefixtures("checks")
def test_job_preempts_a_test_immediately_and_no_node_is_blamed(sandbox: Cluster) -> None:
    sandbox.wait_idle()
    before = (sandbox.state / "reports/latest").resolve()
    running = subprocess.Popen(
        ["busbar", *command(sandbox, *LONG)],
        cwd=TOP,
        env=plain_environment(),
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    try:
        sandbox.wait_until(lambda: "RUNNING" in queue(sandbox, "-p checks -o %T"), "no test runs", 240)
        taken = sandbox.compute[0]
        submit = f"sbatch --parsable -w {taken} --exclusive --chdir=/ -o /dev/null --wrap 'sleep 900'"
        job = sandbox.exec("login", submit, user="alice").stdout.strip()
        sandbox.wait_until(lambda: queue(sandbox, f"-j {job} -o %T") == "RUNNING", "her job waits for a test", 60)
        said, _ = running.communicate(timeout=300)
    finally:
        running.kill()
        running.communicate()
        sandbox.exec("ctl", "scancel --user alice", check=False)
        sandbox.wait_idle(120)
    assert (sandbox.state / "reports/latest").resolve() != before, said
    found = report(sandbox)
    assert (found["verdict"], found["not_tested"]) == ("INCONCLUSIVE", True), said
    assert running.returncode == 0, said
    assert "culprits" not in found
    (test,) = found["tests"]
    assert test["job"]["problem"].startswith("cut off: preempted by "), test["job"]
    assert "FAIL" not in said
    assert "drained" not in sandbox.exec("ctl", "sinfo -h -N -o %T").stdout


@pytest.mark.usefixtures("checks")
def test_background_validation_passes_on_idle_nodes(sandbox: Cluster) -> None:
    sandbox.wait_idle()
    small = ("-e", "validation_stages=node", "-e", "validation_max_bytes=1M", "-e", "validation_seconds_per_size=0.2")
    done = sandbox.busbar(*command(sandbox, *small, "-e", "validation_floor_gbs=0.0001"), timeout=600)
    assert done.returncode == 0, done.stdout
    assert "Verdict: PASS" in done.stdout


def test_background_validation_without_a_preemptable_partition_is_refused(sandbox: Cluster) -> None:
    where = ("validate", "--sandbox", "--name", sandbox.name, "-e", "validation_background=true")
    done = sandbox.busbar(*where, timeout=300)
    assert done.returncode == USAGE, done.stdout
    assert "set slurm_checks_partition" in " ".join(done.stdout.split())
