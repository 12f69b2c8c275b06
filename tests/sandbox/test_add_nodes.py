"""Nodes that are added to a running cluster: joined, validated, and nobody else disturbed."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from conftest import QUICK, recap
from prometheus_api import Prometheus

if TYPE_CHECKING:
    from conftest import Cluster

pytestmark = [
    pytest.mark.proves("slurm", "ssh", "prometheus"),
    pytest.mark.grows,
]

# With so many nodes the culprit search can be tested on the same cluster.
ENOUGH = 4
# What a restart of the service would change; a reconfiguration does not.
STARTED = "systemctl show -p InvocationID --value slurmd"
# Pid and time of the start of Prometheus, and when its list of nodes was written, in seconds since 1970.
WATCHER = "systemctl show -p MainPID -p ExecMainStartTimestampMonotonic --value prometheus"
LISTED = "stat -c %Y /etc/prometheus/targets/node.yml"


@pytest.mark.core
def test_new_nodes_join_and_nobody_is_disturbed(sandbox: Cluster) -> None:
    old = sandbox.compute
    new = [f"gpu{number}" for number in range(len(old) + 1, max(len(old) + 1, ENOUGH) + 1)]
    sandbox.wait_idle()
    started = {node: sandbox.exec(node, STARTED).stdout for node in old}
    watcher = sandbox.exec("ctl", WATCHER).stdout
    job = sandbox.exec("login", f"sbatch --parsable -w {old[0]} -n1 --mem=64 --wrap 'sleep 900'", user="alice").stdout
    try:
        sandbox.wait_until(lambda: _state(sandbox, job) == "RUNNING", "the job does not start")
        _add(sandbox, len(old) + len(new))
        assert _state(sandbox, job) == "RUNNING"
        assert {node: sandbox.exec(node, STARTED).stdout for node in old} == started
        assert sandbox.exec("ctl", WATCHER).stdout == watcher
        _scraped_within_a_minute(sandbox, new)
    finally:
        sandbox.exec("ctl", f"scancel {job}")
    sandbox.wait_idle()
    assert set(sandbox.node_states()) == {*old, *new}
    for node in new:
        for other in ("login", old[0]):
            there = f"salloc --quiet -w {node} -n1 --mem=64 ssh -o BatchMode=yes {node} hostname"
            assert sandbox.exec(other, there, user="alice").stdout.strip() == node
        assert sandbox.exec("login", f"srun -w {node} --gpus-per-node=1 hostname", user="alice").stdout.strip() == node


def test_there_is_nothing_to_add_any_more(sandbox: Cluster) -> None:
    done = sandbox.busbar("provision", "add_nodes", "-i", str(sandbox.inventory))
    assert done.returncode == 0, done.stdout + done.stderr
    assert all(counts["changed"] == 0 for counts in recap(done.stdout).values())
    assert "New nodes: none" in done.stdout
    assert {*re.findall(r"^ *[\d.]+ s  (\w+) : ", done.stdout, re.MULTILINE)} <= {"preflight", "site"}
    assert "Could not match supplied host pattern" not in done.stdout + done.stderr


def test_a_stranger_is_refused(sandbox: Cluster) -> None:
    done = sandbox.busbar("provision", "add_nodes", "-i", str(sandbox.inventory), "-e", "new_nodes=gpu99")
    assert done.returncode == 1
    assert "gpu99: no compute node of the inventory" in done.stdout
    assert all(counts["changed"] == 0 for counts in recap(done.stdout).values())


def _add(sandbox: Cluster, compute: int) -> None:
    """Grow the sandbox to so many compute nodes and join the new ones to the cluster."""
    done = sandbox.busbar("sandbox", "up", "--name", sandbox.name, "--compute", str(compute))
    assert done.returncode == 0, done.stdout + done.stderr
    done = sandbox.busbar("provision", "add_nodes", "-i", str(sandbox.inventory), *QUICK)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Verdict: PASS" in done.stdout


def _scraped_within_a_minute(sandbox: Cluster, nodes: list[str]) -> None:
    """See that Prometheus scraped each node within a minute after it was told of it."""
    listed = float(sandbox.exec("ctl", LISTED).stdout)
    prometheus = Prometheus(sandbox.name)
    for node in nodes:
        answered = f'up{{job="node",instance="{node}"}} == 1'
        prometheus.wait(lambda query=answered: bool(prometheus.query(query)), f"{node} is not scraped", 60)  # type: ignore[misc]
        series = prometheus.get("query", query=f'node_load1{{instance="{node}"}}[1h]')["result"]
        assert min(float(each["values"][0][0]) for each in series) - listed < 60


def _state(sandbox: Cluster, job: str) -> str:
    """The state of a job as squeue tells it."""
    return sandbox.exec("ctl", f"squeue -h -j {job.strip()} -o %T", check=False).stdout.strip()
