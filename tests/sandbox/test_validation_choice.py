"""Tests of a validation of a cluster in use: it waits for nodes, names the jobs on them, and leaves the jobs alone."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import pytest
from conftest import as_json

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator

    from conftest import Cluster

# The measured CPU cores are shared with other programs: a failed test runs again and is shown as a rerun.
pytestmark = [
    pytest.mark.proves("validation"),
    pytest.mark.grows,
    pytest.mark.flaky(reruns=1, only_rerun=["AssertionError"]),
]

PASS, INCONCLUSIVE, NOT_TESTED = 0, 3, 4
SMALL = ("-e", "validation_max_bytes=1M", "-e", "validation_seconds_per_size=0.2")


def validate(sandbox: Cluster, *arguments: str) -> tuple[subprocess.CompletedProcess[str], dict[str, Any]]:
    """Run the command and return its output and report."""
    latest = sandbox.state / "reports" / "latest"
    before = latest.resolve()
    only = ("-t", "validation_run", *SMALL)
    done = sandbox.busbar("validate", "--sandbox", "--name", sandbox.name, *only, *arguments, timeout=600)
    assert latest.resolve() != before, done.stdout + done.stderr
    return done, as_json((latest / "report.json").read_text(encoding="utf-8"))


def states(sandbox: Cluster, job: str) -> str:
    """Return state, start and node of a job, which never change if the job is left alone."""
    return sandbox.exec("ctl", f"squeue -h -j {job} -o '%T %S %N'").stdout.strip()


@contextlib.contextmanager
def job_of_alice(sandbox: Cluster, nodes: str, seconds: int = 900) -> Iterator[str]:
    """Run a job with one task on each of some nodes."""
    sandbox.wait_idle()
    number = nodes.count(",") + 1
    submit = (
        f"sbatch --parsable -w {nodes} -N{number} -n{number} --mem=64M --chdir=/ -o /dev/null --wrap 'sleep {seconds}'"
    )
    job = sandbox.exec("login", submit, user="alice").stdout.strip()
    try:
        sandbox.wait_until(lambda: states(sandbox, job).startswith("RUNNING"), f"job {job} does not start", 90)
        yield job
    finally:
        sandbox.exec("ctl", f"scancel {job}", check=False)
        sandbox.wait_idle(120)


def test_busy_node_is_waited_for_and_reported_and_others_are_judged(sandbox: Cluster) -> None:
    taken, *free = sorted(sandbox.compute)
    with job_of_alice(sandbox, taken) as job:
        before = states(sandbox, job)
        done, report = validate(sandbox, "-e", "validation_wait=4")
        assert states(sandbox, job) == before
    assert done.returncode == NOT_TESTED, done.stdout
    assert report["left_out"] == {taken: f"not idle: mixed, job {job} of alice"}
    assert f"not tested  {taken}: not idle: mixed, job {job} of alice" in done.stdout
    assert "culprits" not in report
    tests = {test["name"]: test for test in report["tests"]}
    assert tests[f"node-{taken}"]["job"]["job_id"] == ""
    assert {tests[f"node-{node}"]["verdict"] for node in free} == {"PASS"}
    assert not any(taken in test["nodes"] + test["partners"] for test in report["tests"])


def test_node_that_becomes_idle_in_time_is_tested(sandbox: Cluster) -> None:
    node = sandbox.compute[0]
    with job_of_alice(sandbox, node, seconds=20):
        done, report = validate(sandbox, "-e", f"validation_nodes={node}", "-e", "validation_wait=180")
    assert done.returncode == PASS, done.stdout
    assert (report["left_out"], report["tests"][0]["nodes"]) == ({}, [node])


def test_new_nodes_are_validated_while_other_jobs_run_elsewhere(sandbox: Cluster) -> None:
    taken, node, *others = sorted(sandbox.compute)
    with job_of_alice(sandbox, taken) as job:
        before = states(sandbox, job)
        alone = ("-e", f"validation_nodes={node}", "-e", "validation_partners=0")
        done, report = validate(sandbox, *alone)
        assert (done.returncode, report["nodes"], report["verdict"]) == (PASS, [node], "PASS"), done.stdout
        done, report = validate(sandbox, "-e", f"validation_nodes={node}", "-e", "validation_wait=4")
        assert states(sandbox, job) == before
    whole = next(test for test in report["tests"] if test["stage"] == "cluster")
    if others:
        assert (done.returncode, whole["nodes"]) == (PASS, [node]), done.stdout
        assert len(whole["partners"]) == min(2, len(others))
        assert set(whole["partners"]) <= set(others)
    else:
        assert (done.returncode, whole["job"]["job_id"]) == (INCONCLUSIVE, ""), done.stdout
        assert "idle partners: 0 of 1" in whole["reason"]


def test_nodes_are_shared_only_on_request(sandbox: Cluster) -> None:
    taken = sandbox.compute[0]
    # Tests on shared nodes are slow; their speed is not checked here.
    asked = ("-e", "validation_share=true", "-e", "validation_stages=cluster", "-e", "validation_floor_gbs=0.0001")
    with job_of_alice(sandbox, taken) as job:
        before = states(sandbox, job)
        done, report = validate(sandbox, *asked, "-e", '{"validation_sbatch_arguments": ["--mem=64M"]}')
        assert states(sandbox, job) == before
    assert done.returncode == PASS, done.stdout
    assert taken in report["tests"][0]["nodes"]


def provision(sandbox: Cluster, *arguments: str) -> tuple[subprocess.CompletedProcess[str], dict[str, Any]]:
    """Run only the validation of the whole site; return its output and report."""
    latest = sandbox.state / "reports" / "latest"
    before = latest.resolve()
    only = ("-t", "validation_run", *SMALL, "-e", "validation_floor_gbs=0.0001")
    done = sandbox.busbar("provision", "--sandbox", "--name", sandbox.name, *only, *arguments, timeout=600)
    assert latest.resolve() != before, done.stdout + done.stderr
    return done, as_json((latest / "report.json").read_text(encoding="utf-8"))


def test_provisioning_a_cluster_in_use_reports_skipped_nodes_without_an_error(sandbox: Cluster) -> None:
    taken, *free = sorted(sandbox.compute)
    with job_of_alice(sandbox, taken) as job:
        before = states(sandbox, job)
        done, report = provision(sandbox)
        assert states(sandbox, job) == before
    assert done.returncode == PASS, done.stdout
    assert (
        f"validation left out {taken} (job {job} of alice); all tests that ran on {','.join(free)} passed"
        in done.stdout
    )
    assert "Verdict: " not in done.stdout
    assert (report["verdict"], report["busy"]) == ("INCONCLUSIVE", {taken: f"job {job} of alice"})


def test_provisioning_a_busy_cluster_tests_nothing_and_reports_it(sandbox: Cluster) -> None:
    nodes = sorted(sandbox.compute)
    with job_of_alice(sandbox, ",".join(nodes)):
        done, report = provision(sandbox)
        assert done.returncode == PASS, done.stdout
        assert "; no node was tested" in done.stdout
        assert "PASS" not in done.stdout
        assert sorted(report["busy"]) == nodes
        done, _report = provision(sandbox, "-e", "validation_allow_busy=false", "-e", "validation_wait=2")
        assert done.returncode == NOT_TESTED, done.stdout
        assert "Verdict: INCONCLUSIVE: all tests passed, but some nodes were not tested" in done.stdout
