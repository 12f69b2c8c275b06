"""Tests of new nodes before admission: failed nodes stay drained with the reason, interrupted runs admit no node."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
from typing import TYPE_CHECKING

import pytest
from conftest import QUICK, TOP, as_json, plain_environment, recap
from prometheus_api import Prometheus
from test_add_nodes import ENOUGH, grow
from test_validation_reserved import offspring

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from conftest import Cluster

pytestmark = [pytest.mark.proves("slurm", "validation", "prometheus"), pytest.mark.grows]

PASS, FAIL, REFUSED = 0, 1, 2
# One message of 1 MiB: 0.001 GB/s on a link of 10 Mb/s and 0.1 or more on a healthy one, even on a busy CPU.
SMALL = (*QUICK[:-1], "validation_floor_gbs=0.006")
# A test that does not end by itself.
ENDLESS = (*QUICK, "-e", "validation_seconds_per_size=600", "-e", "validation_iterations=1000000")


def reason_of(sandbox: Cluster, node: str) -> tuple[str, str]:
    """Return state (without the mark of a reservation) and reason of a node."""
    state, reason = sandbox.exec("ctl", f"sinfo -h -N -n {node} -o '%T|%E'").stdout.strip().splitlines()[0].split("|")
    return state.rstrip("$"), reason


def never_began(sandbox: Cluster, job: str) -> bool:
    """Return whether a job is still waiting."""
    return sandbox.exec("ctl", f"squeue -h -j {job} -o %T").stdout.split() == ["PENDING"]


@pytest.fixture(scope="module", autouse=True)
def partners(sandbox: Cluster) -> None:
    """Validate the existing nodes, because new nodes are compared with known-good partners."""
    if len(sandbox.compute) < ENOUGH:
        grow(sandbox, ENOUGH)
    done = sandbox.busbar("validate", "--sandbox", "--name", sandbox.name, *QUICK)
    assert done.returncode == PASS, done.stdout + done.stderr


@contextlib.contextmanager
def behind_the_gate(sandbox: Cluster, *nodes: str) -> Iterator[str]:
    """Drain nodes as a join does before their validation; yields the ID of a job that waits for the last node."""
    sandbox.wait_idle()
    sandbox.exec("ctl", f"scontrol update nodename={','.join(nodes)} state=drain reason='busbar: new'")
    submit = f"sbatch --parsable -w {nodes[-1]} -N1 -n1 --mem=64M --chdir=/ -o /dev/null --wrap 'sleep 1'"
    job = sandbox.exec("login", submit, user="alice").stdout.strip()
    try:
        yield job
    finally:
        sandbox.fault("heal")
        sandbox.exec("ctl", f"scancel {job}; scancel -u busbar-validation", check=False)
        sandbox.wait_until(lambda: not sandbox.exec("ctl", "squeue -h").stdout, "a job is left", 120)
        for name in ("busbar-validation", "busbar-new"):
            sandbox.exec("ctl", f"scontrol delete reservationname={name}", check=False)
        sandbox.exec("ctl", f"scontrol update nodename={','.join(nodes)} state=resume", check=False)
        sandbox.wait_idle(240)


@pytest.mark.flaky(reruns=1, only_rerun=["AssertionError"])
def test_new_node_with_a_bad_nic_is_the_only_one_not_admitted(sandbox: Cluster) -> None:
    good, bad = sandbox.compute[-2:]
    with behind_the_gate(sandbox, good, bad) as job:
        sandbox.fault("throttle", bad, "10mbit")
        done = sandbox.busbar("provision", "put_into_service", "--tags", "admit", "-i", str(sandbox.inventory), *SMALL)
        assert done.returncode == FAIL, done.stdout + done.stderr
        assert reason_of(sandbox, good) == ("idle", "none")
        state, reason = reason_of(sandbox, bad)
        assert (state, reason.startswith("busbar: new: slow with ")) == ("drained", True), reason
        report = as_json((sandbox.state / "reports/latest/report.json").read_text(encoding="utf-8"))
        assert report["drain"]["nodes"] == [{"node": bad, "reason": reason}]
        assert f"behind the gate  {bad}: {reason}" in done.stdout
        assert never_began(sandbox, job)
        prometheus = Prometheus(sandbox.name)
        fires = f'ALERTS{{alertname="SlurmNodeNotAdmitted",alertstate="firing",node="{bad}"}}'
        prometheus.wait(lambda: bool(prometheus.query(fires)), "no alert says that the node was not admitted", 240)
        # The node is repaired, and the next run selects it automatically.
        sandbox.fault("heal")
        done = sandbox.busbar("provision", "add_nodes", "-i", str(sandbox.inventory), *QUICK)
        assert done.returncode == PASS, done.stdout + done.stderr
        assert f"New nodes: {bad}" in done.stdout
        sandbox.wait_until(lambda: not sandbox.exec("ctl", f"squeue -h -j {job}").stdout, "the job does not start", 90)


def test_killed_run_admits_no_node_and_the_next_run_does(sandbox: Cluster) -> None:
    node = sandbox.compute[-1]
    command = ["busbar", "provision", "put_into_service", "--tags", "admit", "-i", str(sandbox.inventory)]
    with behind_the_gate(sandbox, node) as job:
        environment = plain_environment()
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        with subprocess.Popen([*command, *ENDLESS], cwd=TOP, env=environment, start_new_session=True, **quiet) as run:  # type: ignore[call-overload]
            tests = "squeue -h -u busbar-validation -t R -o %i"
            try:
                sandbox.wait_until(lambda: bool(sandbox.exec("ctl", tests).stdout), "no test runs", 180)
                sandbox.wait_until(lambda: reason_of(sandbox, node)[0] == "draining", "it is not drained again")
            finally:
                # Each process has its own session.
                for process in (run.pid, *offspring(run.pid)):
                    os.kill(process, signal.SIGKILL)
        sandbox.exec(node, "systemctl restart slurmd")
        assert reason_of(sandbox, node)[1] == "busbar: new"
        refused = sandbox.busbar("provision", "add_nodes", "-i", str(sandbox.inventory), *QUICK)
        assert refused.returncode == REFUSED, refused.stdout
        assert "another validation uses the reservation busbar-validation (job " in refused.stdout
        assert all(counts["changed"] == 0 for counts in recap(refused.stdout).values())
        assert never_began(sandbox, job)
        sandbox.exec("ctl", "scancel -u busbar-validation")
        sandbox.wait_until(lambda: reason_of(sandbox, node)[0] == "drained", "the test does not end", 120)
        done = sandbox.busbar("provision", "put_into_service", "--tags", "admit", "-i", str(sandbox.inventory), *QUICK)
        assert done.returncode == PASS, done.stdout + done.stderr
        sandbox.wait_until(lambda: not sandbox.exec("ctl", f"squeue -h -j {job}").stdout, "the job does not start", 90)


def test_machine_known_to_slurm_under_another_name_is_refused(sandbox: Cluster, tmp_path: Path) -> None:
    node = sandbox.compute[-1]
    site = tmp_path / "site"
    shutil.copytree(sandbox.state, site, ignore=shutil.ignore_patterns("storage", "reports", "logs"))
    hosts = site / "inventory" / "hosts.yml"
    hosts.write_text(hosts.read_text(encoding="utf-8").replace(f"{node}:", "other9:"), encoding="utf-8")
    done = sandbox.busbar("provision", "add_nodes", "-i", str(site / "inventory"))
    assert done.returncode == REFUSED, done.stdout + done.stderr
    assert f"is already in the cluster as {node}" in done.stdout
    assert all(counts["changed"] == 0 for counts in recap(done.stdout).values())


def test_node_in_service_is_refused(sandbox: Cluster) -> None:
    node = sandbox.compute[0]
    done = sandbox.busbar("provision", "add_nodes", "-i", str(sandbox.inventory), "-e", f"new_nodes={node}")
    assert done.returncode == REFUSED
    assert f"{node}: new_nodes: is in service (idle)" in done.stdout
    assert all(counts["changed"] == 0 for counts in recap(done.stdout).values())
