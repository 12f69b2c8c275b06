"""Tests of Slurm's own drain reasons: the remedy of `busbar doctor` works."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, NamedTuple

import pytest
from ansible_collections.busbar.cluster.plugins.module_utils.health.host_diagnosis import drain_problems
from ansible_collections.busbar.cluster.plugins.module_utils.slurm.scontrol_nodes import read_text_nodes
from prometheus_api import Prometheus
from test_doctor import doctor
from test_slurm_jobs import submit

if TYPE_CHECKING:
    from collections.abc import Iterator

    from conftest import Cluster

pytestmark = pytest.mark.proves("slurm", "preflight")

CONF = "/etc/slurm/slurm.conf"
GOOD = "/root/slurm.conf.busbar-test"
RESTART = "systemctl restart slurmd"
RESUME = "scontrol update NodeName=gpu1 State=RESUME"
REFUSED = "Invalid node state specified"
FAIL = r"printf '#!/bin/sh\necho no scratch disk; exit 1\n' > /root/busbar-test-fail; chmod +x /root/busbar-test-fail"
# A frozen process does not end, like one in state D that waits for a file server.
FREEZE = """
step=$(find /sys/fs/cgroup/freezer -type d -path "*/job_$1/step_batch") && mkdir "$step/stuck"
pgrep -f "job0*$1/slurm_scrip[t]" > "$step/stuck/cgroup.procs"
echo FROZEN > "$step/stuck/freezer.state"
"""
THAW = "for each in $(find /sys/fs/cgroup/freezer -name stuck); do echo THAWED > $each/freezer.state; done"


class Case(NamedTuple):
    """A reason: the sed edit of slurm.conf that causes it, and whether it also needs a job or a stopped slurmd."""

    reason: str
    edit: str
    trigger: str = ""


INVALID = {
    "memory": Case("Low RealMemory (reported:", "s/RealMemory=[0-9]*/RealMemory=99999999/"),
    "gres": Case("gres/gpu count reported lower than configured (2 < 3)", "s/Gres=gpu:sim:2/Gres=gpu:sim:3/"),
    "cpus": Case("Low socket*core*thread count, Low CPUs", "s/CPUs=2 Sockets=1/CPUs=16 Sockets=8/"),
    "disk": Case("Low TmpDisk", "s/^NodeName=.*/& TmpDisk=99999999/"),
}
DRAINED = {
    "prolog": Case("Prolog error", "$ a Prolog=/root/busbar-test-fail", "job"),
    "epilog": Case("Epilog error", "$ a Epilog=/root/busbar-test-fail", "job"),
    "kill": Case("Kill task failed", r"s/^UnkillableStepTimeout=.*/UnkillableStepTimeout=5\nKillWait=2/", "freeze"),
}
DOWN = {
    "silent": Case("Not responding", "s/^SlurmdTimeout=.*/SlurmdTimeout=10/", "stop"),
    "reboot": Case(
        "reboot timed out",
        r"s/^RebootProgram=.*/RebootProgram=\/bin\/true\nResumeTimeout=5\nSlurmdTimeout=10/",
        "reboot",
    ),
}


def node(sandbox: Cluster) -> str:
    """Return the output of `scontrol show node` for gpu1 in one line."""
    return sandbox.exec("ctl", "scontrol -o show node gpu1 --details").stdout


def remedy(sandbox: Cluster) -> str:
    """Return the remedy for gpu1 from the function that doctor calls on the controller."""
    (found,) = drain_problems(read_text_nodes(node(sandbox)))
    return found["remedy"]


def configure(sandbox: Cluster, edit: str) -> None:
    """Edit slurm.conf and reconfigure."""
    sandbox.exec("ctl", f"sed -i '{edit}' {CONF} && scontrol reconfigure")


@pytest.fixture
def made(sandbox: Cluster, request: pytest.FixtureRequest) -> Iterator[Case]:
    """Cause a reason on the node and wait until Slurm reports it."""
    case: Case = request.param
    sandbox.wait_idle()
    with contextlib.ExitStack() as healing:
        healing.callback(sandbox.wait_idle, 240)
        healing.callback(sandbox.exec, "ctl", RESUME, check=False)
        healing.callback(sandbox.exec, "ctl", RESUME.replace("gpu1", "gpu2"), check=False)
        healing.callback(sandbox.exec, "gpu1", "systemctl start slurmd; rm -f /root/busbar-test-fail")
        healing.callback(sandbox.exec, "ctl", f"[ ! -e {GOOD} ] || {{ mv {GOOD} {CONF} && scontrol reconfigure; }}")
        healing.callback(sandbox.exec, "ctl", "scancel --state=PENDING --user=alice", check=False)
        healing.callback(sandbox.exec, "gpu1", THAW)
        sandbox.exec("gpu1", FAIL)
        sandbox.exec("ctl", f"cp -p {CONF} {GOOD}")
        configure(sandbox, case.edit)
        if case.trigger in {"job", "freeze"}:
            sandbox.wait_until(lambda: "State=IDLE " in node(sandbox), "gpu1 has not taken the configuration")
            job = submit(sandbox, "-w gpu1 --mem=64 -o /dev/null", "sleep 300" if case.trigger == "freeze" else "true")
            if case.trigger == "freeze":
                pattern = f"job0*{job}/slurm_scrip[t]"
                sandbox.wait_until(
                    lambda: not sandbox.exec("gpu1", f"pgrep -f '{pattern}'", check=False).returncode, job
                )
                sandbox.exec("gpu1", FREEZE.replace("$1", job))
                sandbox.exec("ctl", f"scancel {job}")
        if case.trigger == "reboot":
            sandbox.exec("ctl", "scontrol reboot gpu1")
        if case.trigger in {"stop", "reboot"}:
            sandbox.exec("gpu1", "systemctl stop slurmd")
        sandbox.wait_until(lambda: case.reason in node(sandbox), f"gpu1 is not: {case.reason}", 180)
        yield case


def correct(sandbox: Cluster) -> None:
    """Remove the cause, as the admin does first."""
    sandbox.exec("ctl", f"mv {GOOD} {CONF}")


@pytest.mark.parametrize("made", INVALID.values(), ids=INVALID, indirect=True)
def test_invalid_node_is_resumed_after_slurmd_registers_again(sandbox: Cluster, made: Case) -> None:
    assert "INVALID_REG" in node(sandbox)
    assert made.reason in node(sandbox)
    refused = sandbox.exec("ctl", RESUME, check=False)
    assert refused.returncode
    assert REFUSED in refused.stderr
    said = remedy(sandbox)
    assert said.index(f"on gpu1: {RESTART}") < said.index(RESUME)
    correct(sandbox)
    sandbox.exec("ctl", "scontrol reconfigure")
    sandbox.exec("gpu1", RESTART)
    assert "once sinfo shows drained instead of inval" in said
    drained = "sinfo -h -n gpu1 -o %T"
    sandbox.wait_until(lambda: sandbox.exec("ctl", drained).stdout == "drained\n", "gpu1 is not just drained")
    sandbox.exec("ctl", RESUME)
    sandbox.exec("ctl", RESUME.replace("gpu1", "gpu2"), check=False)
    sandbox.wait_idle()


@pytest.mark.parametrize("made", DRAINED.values(), ids=DRAINED, indirect=True)
def test_drained_node_is_resumed_after_the_cause_is_removed(sandbox: Cluster, made: Case) -> None:
    said = remedy(sandbox)
    assert said.endswith(f"then {RESUME}")
    if made.trigger == "freeze":
        assert "ps -eo pid,stat,wchan:30,user,cmd | grep ' D'" in said
        assert "slurm_script" in sandbox.exec("gpu1", "ps -eo pid,stat,wchan:30,user,cmd | grep ' D'").stdout
        assert "NOT ENDING WITH SIGNALS" in sandbox.exec("gpu1", "grep TERMINATED /var/log/slurm/slurmd.log").stdout
        sandbox.exec("gpu1", THAW)
    else:
        assert "journalctl -u slurmd -n 50" in said
        assert "no scratch disk" in sandbox.exec("gpu1", "journalctl -u slurmd -n 50").stdout
    correct(sandbox)
    sandbox.exec("ctl", "scontrol reconfigure")
    if "prolog" in made.edit.lower():
        held = sandbox.exec("ctl", "squeue -h -t PD -o '%i %r'").stdout
        assert "launch failed requeued held" in held
        assert "scontrol release JOB" in said
        sandbox.exec("ctl", f"scontrol release {held.split()[0]}")
    sandbox.exec("ctl", RESUME)
    # Slurm starts a requeued job only after two minutes, when its credential has expired (Reason=BeginTime).
    sandbox.wait_until(lambda: not sandbox.exec("ctl", "squeue -h").stdout, "jobs are left", 240)
    sandbox.wait_idle()


@pytest.mark.parametrize("made", DOWN.values(), ids=DOWN, indirect=True)
def test_down_node_returns_after_slurmd_restarts(sandbox: Cluster, made: Case) -> None:
    assert "State=DOWN" in node(sandbox)
    said = remedy(sandbox)
    assert said.index(RESTART) < said.index("returns to service automatically")
    correct(sandbox)
    sandbox.exec("ctl", "scontrol reconfigure")
    sandbox.exec("gpu1", RESTART)
    sandbox.wait_idle(120)
    assert made.reason not in node(sandbox)


def test_restart_loop_is_found(sandbox: Cluster) -> None:
    """If a device of gres.conf is missing, slurmd exits immediately, and systemd restarts it every five seconds."""
    sandbox.wait_idle()
    with contextlib.ExitStack() as healing:
        healing.callback(sandbox.wait_idle, 240)
        healing.callback(sandbox.exec, "gpu1", "mv /dev/nvidia1.busbar-test /dev/nvidia1; systemctl restart slurmd")
        sandbox.exec("gpu1", "mv /dev/nvidia1 /dev/nvidia1.busbar-test; systemctl restart slurmd", check=False)
        shown = "systemctl show -p NRestarts --value slurmd"
        sandbox.wait_until(lambda: int(sandbox.exec("gpu1", shown).stdout) > 1, "slurmd is not restarted", 120)
        _, findings = doctor(sandbox)
        found = [each for each in findings if each["key"] == "services" and each["hosts"] == ["gpu1"]]
        assert [each["problem"].partition(":")[0] for each in found] == ["slurmd does not stay up"]
        assert "journalctl -u slurmd -n 50" in found[0]["remedy"]
        assert "can't stat gres.conf file" in sandbox.exec("gpu1", "journalctl -u slurmd -n 50").stdout
        checked = sandbox.exec("gpu1", "nhc", check=False)
        assert "slurmd does not stay up" in checked.stdout + checked.stderr
        alert = 'ALERTS{alertname="ClusterUnitFailed",node="gpu1",name="slurmd.service"}'
        sandbox.wait_until(lambda: bool(Prometheus(sandbox.name).query(alert)), "no alert about slurmd", 180)
