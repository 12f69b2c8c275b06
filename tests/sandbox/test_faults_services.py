"""Tests of ports in use by other programs: reported with the program, healed by the next run once it has exited."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest
from fault_results import note
from faulted import Fault, Work, break_all, is_said, mend_all, prove_rest, provision, see_sound

if TYPE_CHECKING:
    from collections.abc import Iterator

    from conftest import Cluster

pytestmark = pytest.mark.proves("slurm", "node_exporter", "alertmanager")

LISTENER = "import socket,time; s=socket.create_server(('0.0.0.0', {port})); time.sleep(900)"


def squat(unit: str, port: int) -> dict[str, Any]:
    """Return the commands that replace a daemon on its port by another program, and check that the daemon runs."""
    squatter = f"fault-squatter-{port}"
    return {
        "breaks": f'systemctl stop {unit}; systemd-run -q --unit {squatter} python3 -c "{LISTENER.format(port=port)}"'
        f"; until ss -Hltn sport = :{port} | grep -q .; do sleep 0.1; done",
        "mends": f"systemctl stop {squatter}; true",
        "sound": f"systemctl is-active {unit}",
    }


FAULTS = [
    Fault(
        "slurmd's port is taken",
        says="slurmd does not start on gpu2: …gpu2: slurm_config.SlurmdPort: 0.0.0.0 port 6818 is held by …python3",
        heals="end the program that the message names",
        node="gpu2",
        **squat("slurmd", 6818),
        run=("slurm", "--limit", "gpu2"),
    ),
    Fault(
        "slurmctld's port is taken",
        says="slurmctld does not start on ctl: …ctl: slurm_port: 0.0.0.0 port 6817 is held by …python3",
        heals="end the program that the message names",
        node="ctl",
        **squat("slurmctld", 6817),
        run=("slurm", "--limit", "ctl", "-t", "slurm_controller"),
    ),
    Fault(
        "slurmdbd's port is taken",
        says="slurmdbd does not start on ctl: …ctl: slurm_dbd_config.DbdPort: 0.0.0.0 port 6819 is held by …python3",
        heals="end the program that the message names",
        node="ctl",
        **squat("slurmdbd", 6819),
        run=("slurm", "--limit", "ctl", "-t", "slurm_database"),
    ),
    Fault(
        "a node exporter's port is taken",
        says="gpu2: node_exporter_port: …port 9100 is held by …python3",
        heals="end the program that the message names, or choose another port",
        node="gpu2",
        **squat("prometheus-node-exporter", 9100),
        run=("monitoring", "--limit", "gpu2", "-t", "node_exporter"),
    ),
    Fault(
        "Alertmanager's port is taken",
        says="ctl: alertmanager_port: …port 9093 is held by …python3",
        heals="end the program that the message names, or choose another port",
        node="ctl",
        **squat("prometheus-alertmanager", 9093),
        run=("monitoring", "--limit", "ctl", "-t", "alertmanager"),
    ),
]


@pytest.fixture(scope="module")
def work(sandbox: Cluster) -> Iterator[Work]:
    """Return the jobs, accounts and secrets that must survive."""
    there = Work(sandbox)
    yield there
    there.end()


def test_each_port_in_use_is_reported_and_healed_by_one_run(sandbox: Cluster, work: Work) -> None:
    took = {}
    try:
        break_all(sandbox, FAULTS)
        for fault in FAULTS:
            began = time.monotonic()
            done = provision(sandbox, *fault.run)
            took[fault.name] = time.monotonic() - began
            output = done.stdout + done.stderr
            assert done.returncode != 0, output
            assert is_said(fault.says, output), output
            assert "Traceback" not in output, output
    finally:
        mend_all(sandbox, FAULTS)
    healed_s = 0.0
    for playbook in ("slurm", "monitoring"):
        began = time.monotonic()
        healed = provision(sandbox, playbook)
        healed_s += time.monotonic() - began
        assert healed.returncode == 0, healed.stdout + healed.stderr
    see_sound(sandbox, FAULTS)
    sandbox.wait_until(lambda: sandbox.node_states()["gpu2"] == "idle", "gpu2 is not in service again", 120)
    work.is_whole()
    for name, told_s in took.items():
        note("runs", name, {"told_s": round(told_s), "healed_s": round(healed_s)})


def test_run_after_all_faults_changes_nothing(sandbox: Cluster, work: Work) -> None:
    for playbook in ("slurm", "monitoring"):
        prove_rest(sandbox, playbook)
    work.is_whole()
