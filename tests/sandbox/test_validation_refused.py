"""Tests of validations without a speed result: untestable nodes are never PASS, impossible options are refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from conftest import QUICK, recap
from validations import validate

if TYPE_CHECKING:
    from collections.abc import Callable

    from conftest import Cluster

pytestmark = pytest.mark.proves("validation")


@pytest.mark.core
def test_drained_node_is_never_a_pass(sandbox: Cluster) -> None:
    node = sandbox.compute[0]
    sandbox.exec("ctl", f"scontrol update nodename={node} state=drain reason=test")
    try:
        done, report = validate(sandbox, *QUICK)
    finally:
        sandbox.exec("ctl", f"scontrol update nodename={node} state=resume")
        sandbox.wait_idle()
    assert done.returncode != 0
    assert report["verdict"] == "INCONCLUSIVE"
    assert "test" in report["left_out"][node]
    assert any(node in line for line in report["node_reasons"])


def test_job_that_never_starts_is_cancelled_and_inconclusive(sandbox: Cluster) -> None:
    node = sandbox.compute[0]
    job = sandbox.exec(
        "ctl", f"sbatch --parsable --exclusive -w {node} --chdir=/ -o /dev/null --wrap 'sleep 300'"
    ).stdout.strip()
    try:
        done, report = validate(sandbox, *QUICK, "-e", "validation_wait=4", "-e", "validation_share=true")
    finally:
        sandbox.exec("ctl", f"scancel {job}")
        sandbox.wait_idle()
    assert done.returncode != 0
    assert report["verdict"] == "INCONCLUSIVE"
    assert "did not start within 4 s" in report["reason"]
    assert f"{node}: job {job} of root" in " ".join(test["reason"] for test in report["tests"])
    assert sandbox.exec("ctl", "squeue -h -n busbar-cluster").stdout == ""


def test_stopped_slurmd_is_inconclusive(sandbox: Cluster, faults: Callable[..., None]) -> None:
    sandbox.wait_idle()
    faults("stop", sandbox.compute[0], "slurmd")
    done, report = validate(sandbox, *QUICK, "-e", "validation_wait=6", "-e", "validation_test_time_limit=8")
    assert done.returncode != 0
    assert report["verdict"] == "INCONCLUSIVE", report["reason"]


def test_stopped_slurmctld_is_inconclusive(sandbox: Cluster, faults: Callable[..., None]) -> None:
    faults("stop", "ctl", "slurmctld")
    done, report = validate(sandbox, "-e", "validation_wait=2")
    assert done.returncode != 0
    assert report["verdict"] == "INCONCLUSIVE"
    assert "slurmctld does not answer" in report["reason"]


def test_check_mode_runs_nothing_and_reports_it(sandbox: Cluster) -> None:
    latest = sandbox.state / "reports" / "latest"
    before = latest.resolve()
    done = sandbox.playbook("validate.yml", "--check", "--diff")
    assert done.returncode == 0, done.stdout
    assert {counts["changed"] for counts in recap(done.stdout).values()} == {0}
    assert "no test is run" in done.stdout
    assert latest.resolve() == before


def test_impossible_options_are_refused_before_any_job(sandbox: Cluster) -> None:
    jobs = sandbox.exec("ctl", "scontrol show config | grep -i NEXT_JOB_ID", check=False).stdout
    for wrong, words in [
        ("validation_backend=nccl", "needs validation_binary"),
        ("validation_max_bytes=12Q", "is not a valid size"),
        ("nccl_validation_floor_gbs=5", "nccl_validation_NAME is validation_NAME"),
        ("validation_nodes=gpu[77-78]", "not a compute node"),
        ("validation_floor_gbs=fast", "validation_floor_gbs: 'fast' is not a bandwidth in GB/s"),
        ("validation_collectives=all_reduce,sum", "validation_collectives: 'sum' is not one of"),
        ("hardware=abacus", "hardware: unknown hardware 'abacus'"),
        (
            '{"validation_min_bytes": "4M", "validation_max_bytes": "1M"}',
            "validation_min_bytes is above",
        ),
        ("validation_reports_dir=/proc/nothing", "validation_reports_dir: "),
    ]:
        done = sandbox.busbar("validate", "--sandbox", "--name", sandbox.name, "-e", wrong)
        said = " ".join(done.stdout.split() + done.stderr.split())
        assert (done.returncode, words in said) == (2, True), said
    assert sandbox.exec("ctl", "scontrol show config | grep -i NEXT_JOB_ID", check=False).stdout == jobs
