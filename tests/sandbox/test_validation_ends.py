"""Tests of interrupted validations: each leaves the results so far, a report and no job."""

from __future__ import annotations

import contextlib
import json
import re
import signal
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
from conftest import QUICK, TOP, as_json, plain_environment
from validations import validate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from conftest import Cluster

pytestmark = pytest.mark.proves("validation")

# A test of several nodes takes minutes: longer than any action of the tests.
SLOW = (*QUICK, "-e", "validation_seconds_per_size=60", "-e", "validation_wait=20")
INCONCLUSIVE, INTERRUPTED = 3, 130


@contextlib.contextmanager
def during_the_last_test(sandbox: Cluster, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """Start a validation and wait until its nodes have passed and the test of all nodes runs."""
    sandbox.wait_idle()
    command = ["busbar", "validate", "--sandbox", "--name", sandbox.name, "-t", "validation_run", *SLOW, *arguments]
    with subprocess.Popen(
        command, cwd=TOP, env=plain_environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as run:
        try:
            sandbox.wait_until(lambda: _has_begun(sandbox), "no test of all", 120)
            yield run
        finally:
            run.kill()


def _has_begun(sandbox: Cluster) -> bool:
    """Return whether the test of all nodes has written its first line, which is later than Slurm's state RUNNING."""
    job = sandbox.exec("ctl", "squeue -h -t R -n busbar-cluster -o %A").stdout.strip()
    shown = sandbox.exec("ctl", f"scontrol -o show job {job}", check=False).stdout if job else ""
    place = re.search(r" BatchHost=(\S+) .*StdOut=(\S+)", shown)
    return place is not None and "# busbar: " in sandbox.exec(place[1], f"cat {place[2]}", check=False).stdout


def report_of(sandbox: Cluster, before: Path) -> tuple[dict[str, Any], Path]:
    """Return the report that was written after another one, and its folder."""
    latest = (sandbox.state / "reports" / "latest").resolve()
    assert latest != before
    assert {"report.html", "junit.xml", "busbar.prom"} <= {path.name for path in latest.iterdir()}
    return as_json((latest / "report.json").read_text(encoding="utf-8")), latest


def gathered(sandbox: Cluster, report: dict[str, Any], folder: Path) -> None:
    """Check that the single nodes were judged, and their outputs exist."""
    verdicts = {test["name"]: test["verdict"] for test in report["tests"]}
    assert verdicts == {**{f"node-{node}": "PASS" for node in sandbox.compute}, "cluster": "INCONCLUSIVE"}
    for node in sandbox.compute:
        assert "# Out of bounds values : 0 OK" in (folder / f"node-{node}.out").read_text(encoding="utf-8")


@pytest.mark.fault(
    "a validation is interrupted",
    says="interrupted by SIGINT",
    heals="validate again; no job is left",
)
def test_interruption_leaves_a_report_and_no_job(sandbox: Cluster) -> None:
    before = (sandbox.state / "reports" / "latest").resolve()
    with during_the_last_test(sandbox) as run:
        run.send_signal(signal.SIGINT)
        said, _ = run.communicate(timeout=120)
    assert run.returncode == INTERRUPTED, said
    report, folder = report_of(sandbox, before)
    assert (report["verdict"], report["reason"]) == ("INCONCLUSIVE", "interrupted by SIGINT")
    assert f"report: {folder}" in said
    gathered(sandbox, report, folder)
    assert "# busbar: Slurm=" in (folder / "cluster.out").read_text(encoding="utf-8")
    sandbox.wait_until(lambda: sandbox.exec("ctl", "squeue -h").stdout == "", "a job is left")
    # Each step was shown while it ran.
    assert "VALIDATION stage node: " in said
    assert said.index("VALIDATION PASS node-") < said.index("VALIDATION stage cluster: 1 test(s) on gpu[1-")


@pytest.mark.fault(
    "slurmctld ends during a validation",
    says="ctl did not answer for ",
    heals="start slurmctld, cancel the job that the message names",
)
def test_slurmctld_that_stops_during_the_run_leaves_a_report(sandbox: Cluster, faults: Callable[..., None]) -> None:
    before = (sandbox.state / "reports" / "latest").resolve()
    with during_the_last_test(sandbox) as run:
        faults("stop", "ctl", "slurmctld")
        said, _ = run.communicate(timeout=240)
    assert run.returncode == INCONCLUSIVE, said
    report, folder = report_of(sandbox, before)
    assert report["verdict"] == "INCONCLUSIVE"
    assert report["reason"].startswith("ctl did not answer for ")
    assert "could not be cancelled: scancel " in report["stopped"]
    gathered(sandbox, report, folder)
    faults("heal")
    job = report["stopped"].split("scancel ")[1]
    sandbox.exec("ctl", f"scancel {job}")


def test_hanging_collective_is_ended_by_the_time_limit(sandbox: Cluster) -> None:
    sandbox.wait_idle()
    limit = ("-e", "validation_time_limit=30", "-e", '{"validation_stages": ["cluster"]}')
    # A size ends after its time or its iterations, whichever comes first.
    endless = ("-e", "validation_seconds_per_size=600", "-e", "validation_iterations=1000000")
    done, report = validate(sandbox, *QUICK, *endless, *limit)
    assert done.returncode != 0
    (test,) = report["tests"]
    assert (report["verdict"], test["reason"]) == (
        "INCONCLUSIVE",
        "cut off: the time limit of the validation was reached",
    )
    assert test["job"]["seconds"] <= 30
    assert report["stopped"] == "the time limit of 30 s for all tests cut short cluster"
    assert report["search_rounds"] == 0
    assert sandbox.exec("ctl", "squeue -h -t PD,R").stdout == ""
    sandbox.wait_idle(120)


# A check that prints what NCCL logs for each connection, some 40 MB.
LINE = "gpu1:100:200 [0] NCCL INFO Channel 00/0 : 0[0] -> 8[0] [send] via NET/IB/0/GDRDMA\n"
LOUD = f"""#!/bin/sh
yes '{LINE.strip()}' | head -n 500000
"""


@pytest.fixture
def loud(sandbox: Cluster) -> Iterator[str]:
    """Install a program on the nodes that prints a lot."""
    path = "/usr/local/bin/loud"
    for node in sandbox.compute:
        sandbox.exec(node, f"cat >{path} <<'EOF'\n{LOUD}EOF\nchmod 755 {path}")
    yield path
    for node in sandbox.compute:
        sandbox.exec(node, f"rm -f {path}")


@pytest.mark.parametrize(("limit", "size"), [("1G", 500_000 * len(LINE)), ("8M", 8 << 20)])
def test_outputs_are_fetched_from_the_nodes_up_to_the_limit(sandbox: Cluster, loud: str, limit: str, size: int) -> None:
    sandbox.wait_idle()
    held = {node: sandbox.exec(node, "ls -A /var/lib/busbar-validation").stdout for node in sandbox.compute}
    options = {"validation_stages": ["node"], "validation_node_checks": ["p2p"], "validation_p2p_binary": loud}
    _done, report = validate(sandbox, *QUICK, "-e", json.dumps(options | {"validation_output_limit": limit}))
    folder = (sandbox.state / "reports" / "latest").resolve()
    for node in sandbox.compute:
        found = (folder / f"p2p-{node}.out").stat().st_size
        assert found == size if limit == "8M" else found > size
        (test,) = [test for test in report["tests"] if test["name"] == f"p2p-{node}"]
        assert ("the output is longer than 8M (validation_output_limit)" in test["reason"]) is (limit == "8M")
        # The output of a job that was not followed to its end stays on the node.
        assert sandbox.exec(node, "ls -A /var/lib/busbar-validation").stdout == held[node]
