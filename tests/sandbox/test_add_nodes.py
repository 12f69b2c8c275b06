"""Tests of nodes that are added to a running cluster: joined and validated without disturbing jobs or daemons."""

from __future__ import annotations

import itertools
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

# This number also suffices to test the culprit search on the same cluster.
ENOUGH = 4
TICKS = "ticks.out"
# An idle controller needs a second for that.
RIGHT_AFTER_S = 60
# Tasks that a join runs on a node in service, independent of the number of new nodes: names, keys and SSH trust.
ON_OLD_NODES = 25
# Changed by a restart of the service, but not by a reconfiguration.
STARTED = "systemctl show -p InvocationID --value slurmd"
# PID and start time of Prometheus, and modification time of its list of nodes, in seconds since 1970.
WATCHER = "systemctl show -p MainPID -p ExecMainStartTimestampMonotonic --value prometheus"
LISTED = "stat -c %Y /etc/prometheus/targets/node.yml"


@pytest.mark.core
def test_new_nodes_join_without_disturbing_the_cluster(sandbox: Cluster) -> None:
    old = sandbox.compute
    new = [f"gpu{number}" for number in range(len(old) + 1, max(len(old) + 1, ENOUGH) + 1)]
    sandbox.wait_idle()
    started = {node: sandbox.exec(node, STARTED).stdout for node in old}
    watcher = sandbox.exec("ctl", WATCHER).stdout
    tick = f"-w {old[0]} -n1 --mem=64 -o {TICKS} --wrap 'while date +%s; do sleep 1; done'"
    job = sandbox.exec("login", f"sbatch --parsable {tick}", user="alice").stdout
    # One node more than are free: the job would start as soon as a new node accepted jobs.
    waits = f"-N{len(old)} --exclusive -o /dev/null --wrap 'srun sleep 5'"
    try:
        sandbox.wait_until(lambda: _state(sandbox, job) == "RUNNING", "the job does not start")
        waiting = sandbox.exec("login", f"sbatch --parsable {waits}", user="alice").stdout.strip()
        assert _state(sandbox, waiting) == "PENDING"
        done = grow(sandbox, len(old) + len(new))
        assert _state(sandbox, job) == "RUNNING"
        assert {node: sandbox.exec(node, STARTED).stdout for node in old} == started
        assert sandbox.exec("ctl", WATCHER).stdout == watcher
        _nothing_ran_before_the_gate_was_open(sandbox, new, waiting)
        _unbroken(sandbox.exec("login", f"cat {TICKS}", user="alice").stdout)
        counts = recap(done)
        assert all(counts[node]["ok"] <= ON_OLD_NODES < counts[new[0]]["ok"] for node in old), counts
        _scraped_within_a_minute(sandbox, new)
    finally:
        sandbox.exec("ctl", "scancel -u alice")
    sandbox.wait_idle()
    assert set(sandbox.node_states()) == {*old, *new}
    for node in new:
        for other in ("login", old[0]):
            there = f"salloc --quiet -w {node} -n1 --mem=64 ssh -o BatchMode=yes {node} hostname"
            assert sandbox.exec(other, there, user="alice").stdout.strip() == node
        assert sandbox.exec("login", f"srun -w {node} --gpus-per-node=1 hostname", user="alice").stdout.strip() == node


def test_second_add_nodes_changes_nothing(sandbox: Cluster) -> None:
    done = sandbox.busbar("provision", "add_nodes", "-i", str(sandbox.inventory))
    assert done.returncode == 0, done.stdout + done.stderr
    assert all(counts["changed"] == 0 for counts in recap(done.stdout).values())
    assert "New nodes: none" in done.stdout
    assert {*re.findall(r"^ *[\d.]+ s  (\w+) : ", done.stdout, re.MULTILINE)} <= {"preflight", "site"}
    assert "Could not match supplied host pattern" not in done.stdout + done.stderr


def test_unknown_node_is_refused(sandbox: Cluster) -> None:
    done = sandbox.busbar("provision", "add_nodes", "-i", str(sandbox.inventory), "-e", "new_nodes=gpu99")
    assert done.returncode == 2
    assert "gpu99: new_nodes: is not a compute node of the inventory" in done.stdout
    assert all(counts["changed"] == 0 for counts in recap(done.stdout).values())


def _nothing_ran_before_the_gate_was_open(sandbox: Cluster, new: list[str], waiting: str) -> None:
    """Check that the waiting job started right after the last test, and that only tests ran on the new nodes before."""
    sandbox.wait_until(lambda: _state(sandbox, waiting) == "", "the waiting job does not end", 90)
    # As numbers, because the clock of the login node may have another time zone.
    shown = f"SLURM_TIME_FORMAT=%s sacct -n -X -P -N {','.join(new)} -S now-1hour -o User,JobIDRaw,Start,End"
    jobs = [line.split("|") for line in sandbox.exec("ctl", shown).stdout.splitlines()]
    users = {user for user, *_rest in jobs}
    assert users == {"alice", "busbar-validation"}, jobs
    (begin,) = (int(start) for _user, number, start, _end in jobs if number == waiting)
    last = max(int(end) for user, _number, _start, end in jobs if user == "busbar-validation")
    assert last <= begin < last + RIGHT_AFTER_S, jobs


def _unbroken(ticks: str) -> None:
    """Check that a job wrote every second, with a tolerance for a busy machine."""
    seconds = [int(word) for word in ticks.split()]
    gaps = [after - before for before, after in itertools.pairwise(seconds)]
    assert len(seconds) > 30
    assert max(gaps) < 15, gaps


def grow(sandbox: Cluster, compute: int) -> str:
    """Grow the sandbox to this number of compute nodes, add the new ones to the cluster, and return the output."""
    done = sandbox.busbar("sandbox", "up", "--name", sandbox.name, "--compute", str(compute))
    assert done.returncode == 0, done.stdout + done.stderr
    done = sandbox.busbar("provision", "add_nodes", "-i", str(sandbox.inventory), *QUICK)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Verdict: PASS" in done.stdout
    return done.stdout


def _scraped_within_a_minute(sandbox: Cluster, nodes: list[str]) -> None:
    """Check that Prometheus scraped each node within a minute after it was added to the list."""
    listed = float(sandbox.exec("ctl", LISTED).stdout)
    prometheus = Prometheus(sandbox.name)
    for node in nodes:
        answered = f'up{{job="node",instance="{node}"}} == 1'
        prometheus.wait(lambda query=answered: bool(prometheus.query(query)), f"{node} is not scraped", 60)  # type: ignore[misc]
        series = prometheus.get("query", query=f'node_load1{{instance="{node}"}}[1h]')["result"]
        assert min(float(each["values"][0][0]) for each in series) - listed < 60


def _state(sandbox: Cluster, job: str) -> str:
    """Return the state of a job from squeue."""
    return sandbox.exec("ctl", f"squeue -h -j {job.strip()} -o %T", check=False).stdout.strip()
