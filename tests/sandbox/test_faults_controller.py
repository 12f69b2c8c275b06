"""Tests of a slurm.conf change that is interrupted at each step: queue and jobs stay, a plain run heals."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from typing import TYPE_CHECKING

import pytest
from fault_results import note
from faulted import BEGUN, HOLD, REAL, Work, instead, is_said, prove_rest, provision
from test_faults_operator import offspring, running
from test_slurm_life import configured

if TYPE_CHECKING:
    from collections.abc import Iterator

    from conftest import Cluster

    # A program, its argument at the call to replace, and the replacement.
    Step = tuple[str, str, str]

pytestmark = pytest.mark.proves("slurm")

PLAIN = ("slurm", "-t", "slurm_controller", "--limit", "ctl")
CONF, PENDING = "/etc/slurm/slurm.conf", "/var/lib/busbar/slurm/slurmctld"
AGE = 423
CHANGE = (*PLAIN, "-e", f'{{"slurm_config": {{"MinJobAge": {AGE}}}}}')
TAKEN_OVER = "took over the stale lock of a killed run"
KILL = "systemctl kill -s KILL slurmctld"
# Masked, so that systemd does not restart it in the meantime.
MASK, UNMASK = (f"systemctl {word} --runtime slurmctld" for word in ("mask", "unmask"))


@pytest.fixture(scope="module")
def work(sandbox: Cluster) -> Iterator[Work]:
    """Return the jobs, accounts and secrets that must survive."""
    there = Work(sandbox)
    yield there
    there.end()


def cut_off(sandbox: Cluster) -> None:
    """Start the change, and kill the run with SIGKILL at the step."""
    with running(sandbox, *CHANGE) as run:
        reached = f"test -e {BEGUN}"
        sandbox.wait_until(lambda: sandbox.exec("ctl", reached, check=False).returncode == 0, "not reached", 300)
        for process in [run.pid, *offspring(run.pid)]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)


def heal(sandbox: Cluster, work: Work, former: str, *says: str) -> int:
    """Check that nothing is lost and that a plain run restores the declared configuration; return its seconds."""
    work.is_whole()
    began = time.monotonic()
    healed = provision(sandbox, *PLAIN)
    healed_s = round(time.monotonic() - began)
    output = healed.stdout + healed.stderr
    assert healed.returncode == 0, output
    for each in says:
        assert is_said(each, output), output
    assert sandbox.exec("ctl", f"cat {CONF}").stdout == former
    assert sandbox.exec("ctl", f"ls {PENDING}", check=False).returncode != 0
    assert configured(sandbox, "ctl", "MinJobAge") != f"{AGE} sec"
    work.is_whole()
    return healed_s


@pytest.mark.parametrize(
    ("step", "in_force"),
    [
        pytest.param(
            *(("slurmctld", "-V", HOLD), False),
            id="written",
            marks=pytest.mark.fault(
                "a run that is killed when slurm.conf is written",
                says="took over the stale lock of a killed run",
                heals="nothing",
            ),
        ),
        pytest.param(
            *(("scontrol", "reconfigure", HOLD), False),
            id="at-reconfigure",
            marks=pytest.mark.fault(
                "a run that is killed when it tells slurmctld of the change",
                says="took over the stale lock of a killed run",
                heals="nothing",
            ),
        ),
        pytest.param(
            *(("scontrol", "reconfigure", f"{REAL}; {HOLD}"), True),
            id="in-force",
            marks=pytest.mark.fault(
                "a run that is killed when the change is in force",
                says="took over the stale lock of a killed run",
                heals="nothing",
            ),
        ),
    ],
)
def test_run_killed_during_a_change_is_healed(
    sandbox: Cluster, work: Work, request: pytest.FixtureRequest, step: Step, *, in_force: bool
) -> None:
    former = sandbox.exec("ctl", f"cat {CONF}").stdout
    with instead(sandbox, *step):
        cut_off(sandbox)
        sandbox.exec("ctl", f"grep -q MinJobAge={AGE} {CONF}")
    assert (configured(sandbox, "ctl", "MinJobAge") == f"{AGE} sec") == in_force
    note(
        "runs", request.node.get_closest_marker("fault").args[0], {"healed_s": heal(sandbox, work, former, TAKEN_OVER)}
    )


@pytest.mark.fault(
    "a run that is killed before slurm.conf is written",
    says="took over the stale lock of a killed run",
    heals="nothing",
)
def test_run_killed_before_writing_changes_nothing(sandbox: Cluster, work: Work) -> None:
    former = sandbox.exec("ctl", f"cat {CONF}").stdout
    with running(sandbox, *CHANGE) as run:
        for process in [run.pid, *offspring(run.pid)]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
    assert sandbox.exec("ctl", f"cat {CONF}").stdout == former
    healed_s = heal(sandbox, work, former, TAKEN_OVER)
    note("runs", "a run that is killed before slurm.conf is written", {"healed_s": healed_s})


@pytest.mark.fault(
    "slurmctld killed when slurm.conf is written",
    says="slurm : apply | Reconfigure all daemons changed=1",
    heals="nothing: the run itself starts slurmctld",
)
def test_slurmctld_killed_before_the_reconfiguration_is_started_by_the_same_run(sandbox: Cluster, work: Work) -> None:
    former = sandbox.exec("ctl", f"cat {CONF}").stdout
    with instead(sandbox, "slurmctld", "-V", f"{KILL}; exec {REAL}"):
        done = provision(sandbox, *CHANGE)
    output = done.stdout + done.stderr
    assert done.returncode == 0, output
    assert is_said("slurm : apply | Reconfigure all daemons changed=1", output), output
    assert configured(sandbox, "ctl", "MinJobAge") == f"{AGE} sec"
    note("runs", "slurmctld killed when slurm.conf is written", {"healed_s": heal(sandbox, work, former)})


@pytest.mark.fault(
    "slurmctld killed when it is told of the change",
    says="ctl: …the previous one is active again",
    heals="nothing: the former configuration is put back, and slurmctld started with it",
)
def test_slurmctld_killed_at_the_reconfiguration_gets_its_former_configuration(sandbox: Cluster, work: Work) -> None:
    former = sandbox.exec("ctl", f"cat {CONF}").stdout
    began = time.monotonic()
    with instead(sandbox, "scontrol", "reconfigure", f"{MASK}; {KILL}; {REAL}; code=$?; {UNMASK}; exit $code"):
        done = provision(sandbox, *CHANGE)
    told_s = round(time.monotonic() - began)
    output = done.stdout + done.stderr
    assert done.returncode != 0, output
    assert is_said("ctl: …the previous one is active again", output), output
    assert sandbox.exec("ctl", f"cat {CONF}").stdout == former
    measured = {"told_s": told_s, "healed_s": heal(sandbox, work, former)}
    note("runs", "slurmctld killed when it is told of the change", measured)


def test_run_after_all_faults_changes_nothing(sandbox: Cluster, work: Work) -> None:
    prove_rest(sandbox, *PLAIN)
    work.is_whole()
