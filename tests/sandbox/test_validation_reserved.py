"""Tests of validations of drained or reserved nodes, within a time limit, and without a terminal."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from typing import TYPE_CHECKING, Any

import pytest
from conftest import QUICK, TOP, as_json, plain_environment

if TYPE_CHECKING:
    from collections.abc import Iterator

    from conftest import Cluster

pytestmark = pytest.mark.proves("validation")

PASS, FAIL, REFUSED, INCONCLUSIVE, NOT_TESTED = 0, 1, 2, 3, 4
NAME = "busbar-validation"
FAN = "fan is loud, ask bob"
# A test that does not end by itself.
ENDLESS = (*QUICK, "-e", "validation_seconds_per_size=600", "-e", "validation_iterations=1000000")


def command(sandbox: Cluster, *arguments: str, tags: str = "validation_run") -> list[str]:
    """Return the arguments of a validation of the sandbox."""
    return ["validate", "--name", sandbox.name, "-t", tags, *arguments]


def validate(sandbox: Cluster, *arguments: str) -> tuple[subprocess.CompletedProcess[str], dict[str, Any]]:
    """Validate and return the output and the report."""
    latest = sandbox.state / "reports" / "latest"
    before = latest.resolve()
    done = sandbox.busbar(*command(sandbox, *QUICK, *arguments), timeout=400)
    assert latest.resolve() != before, done.stdout + done.stderr
    return done, as_json((latest / "report.json").read_text(encoding="utf-8"))


def reason_of(sandbox: Cluster, node: str) -> tuple[str, str]:
    """Return state and reason of a node."""
    state, reason = sandbox.exec("ctl", f"sinfo -h -N -n {node} -o '%T|%E'").stdout.strip().splitlines()[0].split("|")
    return state, reason


def reservations(sandbox: Cluster) -> str:
    """Return all reservations in Slurm."""
    return sandbox.exec("ctl", "scontrol -o show reservation").stdout


@contextlib.contextmanager
def drained(sandbox: Cluster, node: str, reason: str) -> Iterator[str]:
    """Drain a node and submit a user's job that waits for it; yields the job ID."""
    sandbox.wait_idle()
    sandbox.exec("ctl", f"scontrol update nodename={node} state=drain reason='{reason}'")
    submit = f"sbatch --parsable -w {node} -N1 -n1 --mem=64M --chdir=/ -o /dev/null --wrap 'sleep 1'"
    job = sandbox.exec("login", submit, user="alice").stdout.strip()
    try:
        yield job
    finally:
        sandbox.exec("ctl", f"scancel {job}; scancel -u {NAME}", check=False)
        sandbox.wait_until(lambda: not sandbox.exec("ctl", "squeue -h").stdout, "a job is left", 90)
        sandbox.exec("ctl", f"scontrol delete reservationname={NAME}", check=False)
        sandbox.exec("ctl", f"scontrol update nodename={node} state=resume", check=False)
        sandbox.wait_idle(120)


def offspring(process: int) -> list[int]:
    """Return all child processes of a process, recursively: each has its own session."""
    found = subprocess.run(["pgrep", "-P", str(process)], check=False, capture_output=True, text=True).stdout.split()
    return [each for child in map(int, found) for each in [*offspring(child), child]]


def never_began(sandbox: Cluster, job: str) -> bool:
    """Return whether a job is still waiting."""
    shown = sandbox.exec("ctl", f"squeue -h -j {job} -o '%T %S'").stdout.split()
    return shown[:1] == ["PENDING"]


@pytest.mark.core
def test_node_drained_by_an_admin_is_tested_and_stays_drained(sandbox: Cluster) -> None:
    node = sandbox.compute[0]
    with drained(sandbox, node, FAN) as job:
        done, report = validate(sandbox, "-e", f"validation_nodes={node}")
        assert done.returncode == PASS, done.stdout
        assert never_began(sandbox, job)
        assert reason_of(sandbox, node) == ("drained", FAN)
    assert report["held"] == {node: FAN}
    # Slurm no longer has the time of the original drain.
    assert report["held_by"][node].startswith("root, 20")
    assert (report["resumed"], report["leftovers"]) == ([], [])
    assert {test["verdict"] for test in report["tests"]} == {"PASS"}
    assert all(node in test["nodes"] for test in report["tests"])
    assert f"stays drained  {node}: {FAN} (root, 20" in done.stdout
    shown = sandbox.busbar("report", "show", "--name", sandbox.name).stdout
    assert f"stays drained  {node}: {FAN} (root, 20" in shown
    assert FAN in (sandbox.state / "reports/latest/report.html").read_text(encoding="utf-8")
    assert "No reservations" in reservations(sandbox)


def test_node_drained_by_busbar_is_resumed_after_it_passed(sandbox: Cluster) -> None:
    node = sandbox.compute[0]
    with drained(sandbox, node, "busbar: 1 of 2 NICs idle") as job:
        done, report = validate(sandbox, "-e", f"validation_nodes={node}", "-e", "validation_partners=0")
        assert done.returncode == PASS, done.stdout
        assert report["resumed"] == [{"node": node, "problem": ""}]
        # The waiting job starts on the resumed node.
        sandbox.wait_until(lambda: not sandbox.exec("ctl", f"squeue -h -j {job}").stdout, "the node is not used", 90)


def test_failed_node_stays_drained_with_the_reason(sandbox: Cluster) -> None:
    node = sandbox.compute[0]
    wrong = ("-e", f"validation_nodes={node}", "-e", "__validation_mpi_wrong_rank=0", "-e", "validation_resume=all")
    with drained(sandbox, node, "busbar: new") as job:
        done, _report = validate(sandbox, *wrong)
        assert done.returncode == FAIL, done.stdout
        state, reason = reason_of(sandbox, node)
        assert (state, reason.startswith("busbar: new: node-"), "sums are wrong" in reason) == ("drained", True, True)
        sandbox.exec("ctl", f"scontrol update nodename={node} state=drain reason='{FAN}'")
        done, report = validate(sandbox, *wrong)
        assert (done.returncode, reason_of(sandbox, node)) == (FAIL, ("drained", FAN)), done.stdout
        assert never_began(sandbox, job)
    assert report["held"] == {node: FAN}


def test_node_reserved_by_alice_is_tested_and_stays_reserved(sandbox: Cluster) -> None:
    node = sandbox.compute[0]
    sandbox.wait_idle()
    made = f"scontrol create reservation reservationname=course users=alice nodes={node} starttime=now duration=60"
    sandbox.exec("ctl", made)
    try:
        sandbox.wait_until(lambda: reason_of(sandbox, node)[0] == "reserved", "the node is not reserved", 90)
        done, report = validate(sandbox, "-e", f"validation_nodes={node}")
        assert (done.returncode, report["held"]) == (PASS, {}), done.stdout
        shown = reservations(sandbox)
        assert ("ReservationName=course" in shown, NAME in shown) == (True, False)
        # The node was not selected by name.
        done, report = validate(sandbox, "-e", "validation_wait=2")
        assert (done.returncode, list(report["left_out"])) == (NOT_TESTED, [node]), done.stdout
    finally:
        sandbox.exec("ctl", "scontrol delete reservationname=course")
        sandbox.wait_idle()


def test_reservation_of_another_user_with_that_name_is_refused(sandbox: Cluster) -> None:
    node = sandbox.compute[0]
    sandbox.wait_idle()
    made = f"scontrol create reservation reservationname={NAME} users=alice nodes={node} starttime=now duration=60"
    sandbox.exec("ctl", made)
    try:
        before = reservations(sandbox)
        done = sandbox.busbar(*command(sandbox, *QUICK, "-e", f"validation_nodes={node}"))
        said = " ".join(done.stdout.split())
        assert done.returncode == REFUSED, said
        assert f"ctl: the reservation {NAME} was not created by busbar (it is for alice)" in said
        assert f"scontrol delete ReservationName={NAME}" in said
        assert reservations(sandbox) == before
        done = sandbox.busbar(*command(sandbox, *QUICK, "-e", "validation_reservation=gone"))
        assert (done.returncode, "the reservation gone does not exist" in done.stdout) == (REFUSED, True), done.stdout
        done = sandbox.busbar(*command(sandbox, *QUICK, "-e", "validation_partition=nowhere"))
        assert (done.returncode, "validation_partition=nowhere: " in done.stdout) == (REFUSED, True), done.stdout
    finally:
        sandbox.exec("ctl", f"scontrol delete reservationname={NAME}")
        sandbox.wait_idle()


@pytest.mark.fault(
    "a validation is killed with -9",
    says="another validation uses the reservation",
    heals="end its job, validate again: the node gets its former state",
)
def test_killed_validation_leaves_its_node_drained_and_a_reservation_that_ends(sandbox: Cluster) -> None:
    node = sandbox.compute[0]
    alone = ("-e", f"validation_nodes={node}", "-e", "validation_partners=0")
    with drained(sandbox, node, FAN) as job:
        words = ["busbar", *command(sandbox, *ENDLESS, *alone)]
        with subprocess.Popen(
            words, cwd=TOP, env=plain_environment(), stdout=subprocess.DEVNULL, start_new_session=True
        ) as run:
            running = "squeue -h -t R -n busbar-node-" + node
            sandbox.wait_until(lambda: bool(sandbox.exec("ctl", running).stdout), "no job runs", 120)
            sandbox.wait_until(lambda: reason_of(sandbox, node)[0].startswith("draining"), "not drained again", 60)
            for process in [*offspring(run.pid), run.pid]:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)
        assert reason_of(sandbox, node)[1] == FAN
        assert "EndTime=" in reservations(sandbox)
        done = sandbox.busbar(*command(sandbox, *QUICK, *alone))
        said = " ".join(done.stdout.split())
        assert (done.returncode, f"another validation uses the reservation {NAME}" in said) == (REFUSED, True), said
        sandbox.exec("ctl", f"scancel -u {NAME}")
        sandbox.wait_until(lambda: reason_of(sandbox, node)[0].startswith("drained"), "the job does not end", 90)
        done, report = validate(sandbox, *alone)
        assert (done.returncode, report["held"]) == (PASS, {node: FAN}), done.stdout
        assert never_began(sandbox, job)
    assert "No reservations" in reservations(sandbox)


def test_unselected_drained_node_is_not_tested_and_causes_no_error(sandbox: Cluster) -> None:
    node = sandbox.compute[0]
    with drained(sandbox, node, FAN):
        done, report = validate(sandbox)
        assert done.returncode == NOT_TESTED, done.stdout
    assert (report["not_tested"], report["verdict"]) == (True, "INCONCLUSIVE")
    assert report["left_out"] == {node: f"drained ({FAN})"}
    assert "Verdict: INCONCLUSIVE: all tests passed, but some nodes were not tested" in done.stdout


def test_hanging_ranks_are_ended_within_the_limit(sandbox: Cluster) -> None:
    sandbox.wait_idle()
    limit = 45
    words = ["busbar", *command(sandbox, *ENDLESS, "-e", "validation_stages=cluster")]
    words += ["-e", f"validation_time_limit={limit}", "-e", "validation_wait=600"]
    with subprocess.Popen(
        words, cwd=TOP, env=plain_environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as run:
        frozen = "pkill -STOP -f '^[^ ]*python3.*busbar_collectives'"
        sandbox.wait_until(
            lambda: sandbox.exec(sandbox.compute[0], frozen, check=False).returncode == 0, "no rank runs", 120
        )
        said, _ = run.communicate(timeout=200)
    assert run.returncode == INCONCLUSIVE, said
    report = as_json((sandbox.state / "reports/latest/report.json").read_text(encoding="utf-8"))
    assert 0 < report["tests"][0]["job"]["seconds"] <= limit
    assert "cut off: the time limit of the validation was reached" in said
    assert sandbox.exec("ctl", "squeue -h -t PD,R").stdout == ""
    sandbox.wait_idle(120)


def test_detached_validation_is_followed_with_its_exit_code(sandbox: Cluster) -> None:
    sandbox.wait_idle()
    began = time.monotonic()
    done = sandbox.busbar(*command(sandbox, *QUICK), "--detach")
    assert done.returncode == PASS, done.stdout + done.stderr
    # Faster than any playbook.
    assert time.monotonic() - began < 30
    run = done.stdout.split()[1]
    place = ("report", "wait", "--name", sandbox.name)
    status = sandbox.busbar(*place, run, "--status")
    assert (status.returncode, "runs (PID " in status.stdout) == (0, True), status.stdout
    lock = sandbox.state / "inventory.lock"
    sandbox.wait_until(lambda: lock.is_file() and b"validate" in lock.read_bytes(), "the playbook does not begin")
    second = sandbox.busbar(*command(sandbox, *QUICK), "--detach")
    assert (second.returncode, "another run uses this inventory" in second.stderr) == (REFUSED, True), second.stderr
    waited = sandbox.busbar(*place, run, timeout=300)
    assert (waited.returncode, "Verdict: PASS" in waited.stdout) == (PASS, True), waited.stdout
    failed = sandbox.busbar(*command(sandbox, *QUICK, "-e", "__validation_mpi_wrong_rank=0"), "--detach")
    assert failed.returncode == PASS, failed.stderr
    assert sandbox.busbar(*place, timeout=300).returncode == FAIL
    assert "exited with code 1" in sandbox.busbar(*place, "--status").stdout


def test_impossible_validation_options_are_refused_before_provisioning(sandbox: Cluster) -> None:
    done = sandbox.busbar("provision", "--name", sandbox.name, "-e", "validation_backend=nccl")
    assert done.returncode == REFUSED, done.stdout
    assert "nccl needs validation_binary" in done.stdout
    assert "PLAY Configure" not in done.stdout
    done = sandbox.busbar("provision", "--name", sandbox.name, "-e", '{"validation_pool": ["gpu1", "gpu77"]}')
    said = " ".join(done.stdout.split())
    assert done.returncode == REFUSED, said
    assert "gpu77" in said
    assert "validation_pool: not in the inventory" in said
    assert "PLAY Configure" not in said
