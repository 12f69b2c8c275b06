"""Tests of alerts from real faults: detected by Prometheus, delivered, and resolved once the fault is healed."""

from __future__ import annotations

import contextlib
import json
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest
from alert_delivery import RECEIVERS, Sink
from prometheus_api import login

if TYPE_CHECKING:
    from collections.abc import Iterator

    from conftest import Cluster

pytestmark = [pytest.mark.proves("alertmanager", "prometheus"), pytest.mark.rate]

CONF = "/etc/slurm/slurm.conf"
VERDICT = "/var/lib/prometheus/node-exporter/busbar_validation.prom"
# Debian's node exporter ignores this mount point by default.
MOUNT = "/mnt/alerting"
FOUND = ("SlurmNodeDown", "FilesystemFull", "NodeDown", "ValidationFailed")
# Short intervals for the test; the rules are unchanged.
SHORT = {"prometheus_alerts": {name: {"for": "0s"} for name in FOUND}}
# One message of 1 MiB: 0.001 GB/s on a link of 10 Mb/s and 0.1 or more on a healthy one, even on a busy CPU.
SLOW = (
    *("-e", "validation_max_bytes=1M", "-e", "validation_seconds_per_size=0.2"),
    *("-e", "validation_floor_gbs=0.006"),
    *("-e", '{"validation_stages": ["cluster"], "validation_locate_rounds": 0}'),
)


def monitoring(sandbox: Cluster, *arguments: str) -> None:
    done = sandbox.playbook("monitoring.yml", "--tags", "prometheus,alertmanager", *arguments)
    assert done.returncode == 0, done.stdout


@contextlib.contextmanager
def impatient_slurm(sandbox: Cluster) -> Iterator[None]:
    """Make Slurm set a node to down after seconds instead of five minutes."""
    sandbox.exec("ctl", f"cp -p {CONF} {CONF}.kept && sed -i '/^SlurmdTimeout/d' {CONF}")
    sandbox.exec("ctl", f"echo SlurmdTimeout=10 >>{CONF} && scontrol reconfigure")
    sandbox.wait_idle()
    try:
        yield
    finally:
        # A node that has just come back may delay slurmctld's reconfiguration beyond the timeout of scontrol.
        sandbox.exec("ctl", f"mv {CONF}.kept {CONF} && systemctl restart slurmctld")


@pytest.fixture(scope="module")
def sink(sandbox: Cluster) -> Iterator[Sink]:
    """Send firing alerts immediately to a receiver on the monitoring host; everything is restored at the end."""
    sandbox.wait_idle()
    sink = Sink(sandbox)
    # The receiver would not be notified of a verdict that is FAIL already.
    sandbox.exec("ctl", f"rm -f {VERDICT}")
    monitoring(sandbox, "-e", json.dumps(RECEIVERS | SHORT))
    try:
        with impatient_slurm(sandbox):
            yield sink
    finally:
        sandbox.fault("heal")
        monitoring(sandbox)
        sink.stop()
    back_in_service(sandbox)


def back_in_service(sandbox: Cluster) -> None:
    """Resume every node that a fault took out of service."""

    def idle() -> bool:
        for node, state in sandbox.node_states().items():
            if state.rstrip("*") not in {"idle", "comp", "alloc", "mix"}:
                sandbox.exec("ctl", f"scontrol update nodename={node} state=resume", check=False)
        return set(sandbox.node_states().values()) == {"idle"}

    sandbox.wait_until(idle, "not all nodes are back", 60)


def validate(sandbox: Cluster) -> int:
    done = sandbox.busbar("validate", "--sandbox", "--name", sandbox.name, *SLOW, timeout=300)
    assert "FAIL" in done.stdout or "PASS" in done.stdout, done.stdout + done.stderr
    return done.returncode


def arrived(sink: Sink, name: str, node: str, status: str = "firing", timeout: float = 90) -> dict[str, str]:
    """Wait for an alert, check its annotations, and return them."""
    sink.wait_for(
        lambda: (name, node) in sink.alerts("/tickets", status), f"{name} of {node or 'all'} is not {status}", timeout
    )
    alert = sink.alerts("/tickets", status)[name, node]
    assert {"summary", "description", "runbook"} <= set(alert["annotations"])
    assert alert["labels"]["cluster"] == sink.sandbox.name
    said: dict[str, str] = alert["annotations"]
    return said


def silenced(sandbox: Cluster) -> dict[tuple[str, str], bool]:
    """Return the alerts in Alertmanager, by name and node, and whether another one inhibits each."""
    program = (
        "import json, sys, urllib.request as u; print(u.urlopen(u.Request('http://127.0.0.1:9093/api/v2/alerts',"
        "headers=json.loads(sys.argv[1]))).read().decode())"
    )
    found = json.loads(sandbox.exec("ctl", f"python3 -c \"{program}\" '{json.dumps(login(sandbox.name))}'").stdout)
    return {
        (each["labels"]["alertname"], each["labels"].get("node", "")): bool(each["status"]["inhibitedBy"])
        for each in found
    }


def test_slow_link_and_full_disk_are_reported_and_resolved(sandbox: Cluster, sink: Sink) -> None:
    fill = (
        f"mkdir -p {MOUNT} && mount -t tmpfs -o size=8m tmpfs {MOUNT} && dd if=/dev/zero of={MOUNT}/x bs=1M 2>/dev/null"
    )
    sandbox.exec("gpu2", f"{fill}; df {MOUNT} | grep -q 100%")
    try:
        sandbox.fault("throttle", "gpu2", "10mbit")
        with ThreadPoolExecutor() as pool:
            verdict = pool.submit(validate, sandbox)
            said = arrived(sink, "FilesystemFull", "gpu2")
            assert MOUNT in said["summary"]
            assert sandbox.exec("gpu2", f"test -e {MOUNT}/x").returncode == 0
            assert verdict.result() == 1
        said = arrived(sink, "ValidationFailed", "")
        assert sandbox.name in said["summary"]
    finally:
        sandbox.exec("gpu2", f"umount {MOUNT} && rmdir {MOUNT}")
        sandbox.fault("heal")
    assert any("FilesystemFull" in mail["subject"] for mail in sink.messages("mail")), "critical alerts go by mail, too"
    assert validate(sandbox) == 0
    arrived(sink, "FilesystemFull", "gpu2", "resolved")
    arrived(sink, "ValidationFailed", "", "resolved")


def test_stopped_daemon_and_pulled_node_are_reported_once_and_resolved(sandbox: Cluster, sink: Sink) -> None:
    sandbox.exec("gpu2", "systemctl stop slurmd", timeout=120)
    assert "gpu2" in arrived(sink, "SlurmNodeDown", "gpu2")["summary"]
    sandbox.fault("pull", "gpu2")
    assert "gpu2" in arrived(sink, "NodeDown", "gpu2")["summary"]
    # The node is gone, so NodeDown inhibits SlurmNodeDown.
    sandbox.wait_until(lambda: silenced(sandbox).get(("SlurmNodeDown", "gpu2"), False), "nothing is silenced")
    assert not silenced(sandbox)["NodeDown", "gpu2"]
    sandbox.fault("heal")
    back_in_service(sandbox)
    for name in ("NodeDown", "SlurmNodeDown"):
        arrived(sink, name, "gpu2", "resolved")
    named = {node for name, node in sink.alerts("/tickets") if name in FOUND}
    assert named <= {"gpu2", ""}, f"alerts name nodes that are fine: {sink.alerts('/tickets').keys()}"
