"""Tests of a rolling update: other jobs continue, a failed batch stops it, the next run finishes a killed one."""

from __future__ import annotations

import concurrent.futures
import contextlib
import itertools
import json
import os
import signal
import subprocess
import time
from typing import TYPE_CHECKING

import pytest
from busbar.sandbox.recording import gpu_recording
from conftest import QUICK, TOP, plain_environment
from fault_results import note
from faulted import Work, is_said, prove_rest
from test_slurm_jobs import submit, wait_for_state
from trial_archive import PLAIN, SECURITY, forget, offer, versions

if TYPE_CHECKING:
    from collections.abc import Iterator

    from conftest import Cluster

pytestmark = pytest.mark.proves()

REBOOT, BOOTS, HOLD = "/usr/local/sbin/simulated-reboot", "/run/simulated-boots", "/run/hold-the-reboot"
RECORDING, STATE = "/etc/simulated-gpus.xml", "/var/lib/busbar/update_nodes.json"
# Simulated: on some hosts a stopping container removes the other containers' cgroups.
SCRIPT = f"""#!/bin/sh
touch {HOLD}.begun
while [ -e {HOLD} ]; do sleep 0.2; done
[ ! -e {HOLD}.breaks ] || {{ mv {RECORDING} {RECORDING}.sound; mv {HOLD}.breaks {RECORDING}; }}
systemctl restart slurmd
date +%s%N >>{BOOTS}
"""
# Version 1 is installed and version 2 offered; the archive of busbar-plain is not a security archive.
TRIALS = {"busbar-hole": SECURITY, "slurm-hole": SECURITY, "busbar-plain": PLAIN}
EXPORTER = "prometheus-node-exporter"
OPTIONS = (
    *("-e", "update_nodes_packages=none", "-e", "update_nodes_batch=1", "-e", "update_nodes_reboot=always"),
    *("-e", f"nvidia_driver_reboot_command={REBOOT}", "-e", f"nvidia_driver_boot_time_command='cat {BOOTS}'"),
    *QUICK,
)


@pytest.fixture(autouse=True)
def reboots(sandbox: Cluster) -> Iterator[None]:
    """Simulate reboots; no update is recorded at the start, and the nodes are restored at the end."""
    sandbox.exec("ctl", f"rm -f {STATE}")
    for node in sandbox.compute:
        sandbox.exec(node, f"cat >{REBOOT} <<'END'\n{SCRIPT}END\nchmod +x {REBOOT}; date +%s%N >{BOOTS}; rm -f {HOLD}*")
    yield
    for node in sandbox.compute:
        sandbox.exec(node, f"[ ! -e {RECORDING}.sound ] || mv {RECORDING}.sound {RECORDING}; rm -f {HOLD}* {BOOTS}")
        sandbox.exec("ctl", f"scontrol update nodename={node} state=resume", check=False)
    sandbox.exec("ctl", f"scancel -u alice; rm -f {STATE}")
    sandbox.wait_idle()


@pytest.fixture
def work(sandbox: Cluster, reboots: None) -> Iterator[Work]:  # noqa: ARG001 - work is torn down first
    """Return the jobs, accounts and secrets that must survive."""
    there = Work(sandbox)
    yield there
    there.end()


def boots(sandbox: Cluster, node: str) -> int:
    """Return the number of reboots of a node in this test."""
    return len(sandbox.exec(node, f"cat {BOOTS}").stdout.split()) - 1


def update(sandbox: Cluster, nodes: str, *arguments: str) -> tuple[int, str]:
    """Update nodes; return exit code and output in one line."""
    done = sandbox.playbook("update_nodes.yml", "-e", f"update_nodes={nodes}", *OPTIONS, *arguments)
    return done.returncode, " ".join(f"{done.stdout} {done.stderr}".split())


def reason(sandbox: Cluster, node: str) -> str:
    return sandbox.exec("ctl", f"sinfo -h -n {node} -o '%t|%E'").stdout.strip()


def test_limit_that_splits_batches_is_refused(sandbox: Cluster) -> None:
    code, said = update(sandbox, "gpu[1-2]", "--limit", "ctl,gpu1,gpu2")
    assert code == 2, said
    assert "--limit: splits the batches" in said
    assert set(sandbox.node_states().values()) == {"idle"}
    assert [boots(sandbox, node) for node in ("gpu1", "gpu2")] == [0, 0]


def test_job_on_another_node_continues_and_is_not_cancelled_at_the_timeout(sandbox: Cluster) -> None:
    lines = "/var/tmp/update-lines"  # noqa: S108 - of a node of the sandbox
    job = submit(sandbox, f"-w gpu2 --mem=64 -o {lines}", "while :; do date +%s; sleep 1; done")
    wait_for_state(sandbox, job, "RUNNING")
    code, said = update(sandbox, "gpu[1-2]", "-e", "update_nodes_wait=3")
    assert code == 2, said
    assert f"batch 2 of 2: gpu2, waits for gpu2: job {job} of alice" in said
    assert f"gpu2: job {job} of alice did not finish in time, and the node is back in service" in said
    assert (boots(sandbox, "gpu1"), boots(sandbox, "gpu2")) == (1, 0)
    states = sandbox.node_states()
    assert (states["gpu1"], states["gpu2"]) == ("idle", "mix")
    assert "JobState=RUNNING" in sandbox.exec("ctl", f"scontrol show job {job}").stdout
    times = [int(line) for line in sandbox.exec("gpu2", f"cat {lines}").stdout.split()]
    assert len(times) > 10
    assert max(after - before for before, after in itertools.pairwise(times)) <= 3
    sandbox.exec("ctl", f"scancel {job}")
    # The same command continues and skips finished nodes.
    code, said = update(sandbox, "gpu[1-2]", "-e", "update_nodes_wait=60")
    assert code == 0, said
    assert "updated by an earlier run: gpu1" in said
    assert (boots(sandbox, "gpu1"), boots(sandbox, "gpu2")) == (1, 1)
    sandbox.wait_idle()


def test_failed_batch_stops_the_update_and_a_killed_run_is_finished_by_the_next(sandbox: Cluster) -> None:
    sandbox.exec("gpu1", f"cat >{HOLD}.breaks <<'END'\n{gpu_recording('gpu1', 1)}\nEND")
    code, said = update(sandbox, "gpu[1-2]", "-e", "update_nodes_health_timeout=10")
    assert code == 2, said
    assert "gpu1 stays drained: service_health | Refuse a node that is not healthy" in said
    assert "GPUs: 2 declared, 1 found" in said
    assert "gpu2: not begun" in said
    assert reason(sandbox, "gpu1").startswith("drain|busbar: update failed: service_health Refuse")
    assert boots(sandbox, "gpu2") == 0
    sandbox.exec("gpu1", f"mv {RECORDING}.sound {RECORDING}; rm -f {HOLD}*; touch {HOLD}")
    command = ["ansible-playbook", "-i", str(sandbox.inventory), str(TOP / "playbooks/update_nodes.yml")]
    run = subprocess.Popen(
        [*command, "-e", "update_nodes=gpu[1-2]", *OPTIONS],
        cwd=TOP,
        env=plain_environment(),
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        begun = f"test -e {HOLD}.begun"
        sandbox.wait_until(lambda: sandbox.exec("gpu1", begun, check=False).returncode == 0, "no reboot", 180)
        code, said = update(sandbox, "gpu2")
        assert code == 2
        assert "another run uses this inventory" in said or "another update is running" in said
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(run.pid, signal.SIGKILL)
        run.wait()
    assert reason(sandbox, "gpu1").startswith("drain|busbar: update")
    sandbox.exec("gpu1", f"rm -f {HOLD}*")
    code, said = update(sandbox, "gpu[1-2]")
    assert code == 0, said
    assert boots(sandbox, "gpu2") == 1
    sandbox.wait_idle()


@pytest.fixture
def offers(sandbox: Cluster) -> Iterator[None]:
    """Offer gpu1 newer versions of installed packages."""
    offer(sandbox, "gpu1", TRIALS)
    yield
    forget(sandbox, "gpu1", TRIALS)


@pytest.mark.usefixtures("offers")
def test_security_updates_and_a_role_are_applied_by_switch(sandbox: Cluster) -> None:
    sandbox.exec("gpu1", "apt-get -qq update", timeout=300)
    sandbox.exec("gpu2", f"systemctl disable --now {EXPORTER}")
    leaves = {"switches": [{"name": "leaf1", "nodes": "gpu1"}, {"name": "leaf2", "nodes": "gpu2"}]}
    asked = {
        "slurm_topology": leaves,
        "update_nodes_by": "switch",
        "update_nodes_batch": 2,
        "update_nodes_packages": "security",
        "update_nodes_roles": ["node_exporter"],
    }
    code, said = update(sandbox, "gpu[1-2]", "-e", json.dumps(asked))
    assert code == 0, said
    assert "batch 1 of 2: gpu1, idle" in said
    assert "batch 2 of 2: gpu2, idle" in said
    # Slurm's packages are held, and updates from other archives were not requested.
    assert versions(sandbox, "gpu1", TRIALS) == ["busbar-hole 2", "busbar-plain 1", "slurm-hole 1"]
    assert sandbox.exec("gpu2", f"systemctl is-active {EXPORTER}; systemctl is-enabled {EXPORTER}").stdout.split() == [
        *("active", "enabled")
    ]
    assert (boots(sandbox, "gpu1"), boots(sandbox, "gpu2")) == (1, 1)
    sandbox.wait_idle()


def test_nodes_drained_by_others_and_bad_input_change_nothing(sandbox: Cluster) -> None:
    sandbox.exec("ctl", "scontrol update nodename=gpu2 state=drain reason='fan, Meyer'")
    code, said = update(sandbox, "gpu2")
    assert code == 0, said
    assert "gpu2 is skipped: drained: fan, Meyer" in said
    assert reason(sandbox, "gpu2") == "drain|fan, Meyer"
    code, said = update(sandbox, "gpu[1-2]", "--check")
    assert code == 0, said
    assert "batch 1 of 1: gpu1, idle" in said
    for nodes, wrong, told in (
        ("gpu1", "update_nodes_batch=0", "update_nodes_batch: '0': set a number of nodes of at least 1"),
        ("ctl,gpu7", "update_nodes_batch=101%", "update_nodes: ctl is not a compute node of the inventory"),
        ("gpu1", "update_nodes_bach=1", "update_nodes_bach: unknown option of update_nodes"),
    ):
        code, said = update(sandbox, nodes, "-e", wrong)
        assert code == 2, said
        assert told in said
    assert (boots(sandbox, "gpu1"), boots(sandbox, "gpu2"), sandbox.node_states()["gpu1"]) == (0, 0, "idle")


@pytest.mark.fault(
    "a node that loses its power during an update",
    says="gpu2 stays drained: became unreachable: power it on",
    heals="power the node on; the next update finishes it",
)
def test_node_that_loses_power_is_reported_and_finished_by_the_next_update(sandbox: Cluster, work: Work) -> None:
    role = ("-e", "update_nodes_roles=users")
    # The role creates a user, and the node loses power during that.
    program, begun = "/usr/local/sbin/useradd", "/run/useradd.begun"
    held = f"#!/bin/sh\nrm {program}; touch {begun}; exec sleep 300\n"
    sandbox.exec("gpu2", f"userdel bob; cat >{program} <<'END'\n{held}END\nchmod +x {program}")
    try:
        with concurrent.futures.ThreadPoolExecutor() as pool:
            run = pool.submit(update, sandbox, "gpu2", *role)
            reached = f"test -e {begun}"
            sandbox.wait_until(lambda: sandbox.exec("gpu2", reached, check=False).returncode == 0, "no role", 180)
            cut = time.monotonic()
            sandbox.fault("pull", "gpu2")
            code, said = run.result(timeout=600)
        told_s = round(time.monotonic() - cut)
    finally:
        sandbox.fault("heal")
        sandbox.exec("gpu2", f"rm -f {program}; date +%s%N >{BOOTS}")
    assert code != 0
    assert "fatal: [gpu2]: UNREACHABLE!" in said, said
    assert is_said("gpu2 stays drained: became unreachable: power it on", said), said
    assert "|busbar: update failed: became unreachable" in reason(sandbox, "gpu2")
    assert sandbox.exec("gpu2", "id bob", check=False).returncode != 0
    work.is_whole()
    began = time.monotonic()
    code, said = update(sandbox, "gpu2", *role)
    assert code == 0, said
    healed_s = round(time.monotonic() - began)
    sandbox.exec("gpu2", "id bob")
    sandbox.wait_until(lambda: sandbox.node_states()["gpu2"] == "idle", f"{sandbox.node_states()}")
    prove_rest(sandbox, "base", "-t", "users", "--limit", "gpu2")
    work.is_whole()
    note("runs", "a node that loses its power during an update", {"told_s": told_s, "healed_s": healed_s})
