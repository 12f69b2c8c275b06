"""Tests of Slurm's metrics in the live Prometheus: they follow real jobs, nodes and daemons."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest
from conftest import recap
from prometheus_api import Prometheus
from test_slurm_jobs import submit

if TYPE_CHECKING:
    from collections.abc import Callable

    from conftest import Cluster

pytestmark = pytest.mark.proves("slurm_metrics")

FILE = "/var/lib/prometheus/node-exporter/busbar_slurm.prom"
# Series used by dashboards and alerts that also exist on an idle cluster.
ALWAYS = (
    *("slurm:up", "slurm:slurmdbd_up", "slurm:slurmdbd_queue:count", "slurm:nodes:count", "slurm:node_state:info"),
    *("slurm:gpus:total", "slurm:gpus:allocated", "slurm:cpus:total", "slurm:cpus:allocated"),
    *("slurm:node_gpus:total", "slurm:node_gpus:allocated", "slurm:node_cpus:total", "slurm:node_cpus:allocated"),
    *("slurm:node_memory:bytes", "slurm:node_memory_allocated:bytes", "slurm:jobs:count", "slurm:wait_seconds:max"),
    *("slurm:scheduler_cycle_seconds:last", "slurm:backfill_cycle_seconds:last", "slurm:scheduler_threads:count"),
    *("slurm:rpcs:rate5m", "slurm:database:bytes", "slurm:metrics_age_seconds"),
)


@pytest.fixture(scope="module")
def prometheus(sandbox: Cluster) -> Callable[[str], list[dict[str, Any]]]:
    """Return a function that queries the Prometheus of this cluster, with the monitoring as provisioned."""
    asked = Prometheus(sandbox.name)
    return lambda query: list(asked.get("query", query=query)["result"])


def value(ask: Callable[[str], list[dict[str, Any]]], query: str) -> float | None:
    """Return the value of a query that has one result, or None."""
    found = ask(query)
    return float(found[0]["value"][1]) if found else None


def wait_for(
    sandbox: Cluster, ask: Callable[[str], list[dict[str, Any]]], query: str, wanted: float, timeout: float = 40
) -> None:
    """Wait until a query has a value, for the intervals of collector, scrape and rules."""
    sandbox.wait_until(lambda: value(ask, query) == wanted, f"{query} is {value(ask, query)}, not {wanted}", timeout)


@pytest.mark.core
def test_every_series_exists(sandbox: Cluster, prometheus: Callable[[str], list[dict[str, Any]]]) -> None:
    # rate() needs two values.
    sandbox.wait_until(
        lambda: not [name for name in ALWAYS if not prometheus(name)],
        f"without a value: {[name for name in ALWAYS if not prometheus(name)]}",
        60,
    )
    assert value(prometheus, "slurm:up") == 1
    assert value(prometheus, "slurm:slurmdbd_up") == 1
    assert (value(prometheus, "slurm:database:bytes") or 0) > 100_000
    assert (value(prometheus, "slurm:metrics_age_seconds") or 1e9) < 30
    assert {each["metric"]["node"] for each in prometheus("slurm:node_state:info")} == set(sandbox.compute)


def test_metrics_follow_jobs_and_a_drained_node(
    sandbox: Cluster, prometheus: Callable[[str], list[dict[str, Any]]]
) -> None:
    sandbox.wait_idle()
    wait_for(sandbox, prometheus, "sum(slurm:gpus:allocated)", 0)
    job = submit(sandbox, "-w gpu1 --gpus=2 --mem=100 -J metrics -o /dev/null", "sleep 300")
    waiting = submit(sandbox, "-w gpu1 --gpus=2 --mem=100 -o /dev/null", "true")
    try:
        wait_for(sandbox, prometheus, "sum(slurm:gpus:allocated)", 2)
        # The waiting job has its waiting time and reason.
        wait_for(sandbox, prometheus, 'sum(slurm:jobs_pending:count{reason=~"Resources|Priority"})', 1)
        wait_for(sandbox, prometheus, 'slurm:wait_seconds:max{partition="batch"} > bool 0', 1)
        assert value(prometheus, 'slurm:node_gpus:allocated{node="gpu1"}') == 2
        assert value(prometheus, 'slurm:user_gpus:allocated{user="alice",account="research"}') == 2
        assert value(prometheus, 'slurm:jobs:count{partition="batch",state="running"}') == 1
        assert prometheus(f'slurm:job:info{{job="{job}",user="alice",partition="batch",name="metrics"}}')
        assert prometheus(f'slurm:job_node:info{{job="{job}",node="gpu1"}}')
        sandbox.exec("ctl", "scontrol update nodename=gpu1 state=drain reason='fan \"3\" is loud'")
        sandbox.exec("ctl", f"scancel {waiting} {job}")
        wait_for(sandbox, prometheus, "sum(slurm:gpus:allocated)", 0)
        wait_for(sandbox, prometheus, 'slurm:nodes:count{state="drained"}', 1)
        (found,) = prometheus('slurm:node_state:info{node="gpu1",state="drained"}')
        assert found["metric"]["reason"] == 'fan "3" is loud'
        wait_for(sandbox, prometheus, 'slurm:wait_seconds:max{partition="batch"}', 0)
    finally:
        sandbox.exec("ctl", f"scancel {waiting} {job}; scontrol update nodename=gpu1 state=resume", check=False)
    sandbox.wait_idle()


def test_job_name_cannot_forge_a_job(sandbox: Cluster, prometheus: Callable[[str], list[dict[str, Any]]]) -> None:
    """The job name contains the collector's separators, followed by a forged record."""
    sandbox.wait_idle()
    forged = ["777", "RUNNING", "batch", "root", "forged", "None", "1000", "1060", "gres/gpu=512", "n[0-199999]", "x"]
    fields = "\\037".join(forged)
    name = f"$(printf 'x\\036{fields}\\036')"
    command = f"cd /tmp && sbatch --parsable -w gpu1 --gpus=1 --mem=50 -o /dev/null -J \"{name}\" --wrap 'sleep 300'"
    job = sandbox.exec("login", command, user="alice").stdout.strip()
    try:
        wait_for(sandbox, prometheus, "sum(slurm:gpus:allocated)", 1)
        wait_for(sandbox, prometheus, f'count(slurm:job:info{{job="{job}"}})', 1)
        (found,) = prometheus(f'slurm:job:info{{job="{job}"}}')
        assert found["metric"]["name"].startswith("x 777 RUNNING batch root forged")
        assert prometheus('slurm:job:info{job="777"}') == []
        assert prometheus('slurm:user_gpus:allocated{account="forged"}') == []
    finally:
        sandbox.exec("ctl", f"scancel {job}")
    sandbox.wait_idle()


def test_unresponsive_daemons_are_reported(sandbox: Cluster, prometheus: Callable[[str], list[dict[str, Any]]]) -> None:
    """A stopped slurmdbd refuses connections; a frozen slurmctld does not answer, and no command hangs."""
    try:
        sandbox.exec("ctl", "systemctl stop slurmdbd")
        wait_for(sandbox, prometheus, "slurm:slurmdbd_up", 0)
        assert value(prometheus, "slurm:up") == 1
        sandbox.exec("ctl", "systemctl kill -s STOP slurmctld")
        held = time.monotonic()
        silent = 'busbar_slurm_up{controller="ctl"} 0.0'
        sandbox.wait_until(lambda: silent in sandbox.exec("ctl", f"cat {FILE}").stdout, "still up", 40)
        # Two intervals, and a margin for a busy machine.
        assert time.monotonic() - held < 2 * 10 + 5
        wait_for(sandbox, prometheus, "slurm:up", 0)
        left = sandbox.exec("ctl", "pgrep -c -u busbar-metrics -x 'scontrol|squeue|sdiag|sacctmgr'", check=False)
        assert int(left.stdout) <= 2
    finally:
        sandbox.exec("ctl", "systemctl kill -s CONT slurmctld; systemctl start slurmdbd", check=False)
    sandbox.wait_until(lambda: "UP" in sandbox.exec("ctl", "scontrol ping", check=False).stdout, "no slurmctld")
    wait_for(sandbox, prometheus, "slurm:up + slurm:slurmdbd_up", 2)
    sandbox.wait_idle()


def test_collector_runs_without_privileges_and_second_run_changes_nothing(sandbox: Cluster) -> None:
    user = sandbox.exec("ctl", "ps -o user= -p $(systemctl show -P MainPID busbar-slurm-metrics)").stdout.strip()
    assert "busbar-metrics".startswith(user.rstrip("+"))
    limit = sandbox.exec("ctl", "systemctl show -P MemoryMax busbar-slurm-metrics").stdout.strip()
    assert int(limit) == 1 << 30
    done = sandbox.playbook("monitoring.yml", "--tags", "slurm_metrics")
    assert done.returncode == 0, done.stdout
    assert {counts["changed"] for counts in recap(done.stdout).values()} == {0}
    refused = sandbox.playbook("monitoring.yml", "--tags", "slurm_metrics", "-e", "slurm_metrics_source=openmetrics")
    assert refused.returncode != 0
    assert "ctl: slurm_metrics_source: openmetrics, but this is slurm" in refused.stdout
