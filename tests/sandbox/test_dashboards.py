"""Tests every query of every dashboard panel against the running Prometheus: each returns data.

NEEDS lists missing hardware by its metrics; queries of these metrics are tested while a recorded or synthetic
exposition is served instead. All other queries must return data without it.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import time
from typing import TYPE_CHECKING

import pytest
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.report.metrics import metrics
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.report.report_reader import normalised
from busbar.sandbox.state import load
from conftest import as_json
from dashboard_files import Asked, asked, dashboards, substituted, variables
from known_metrics import names_in
from prometheus_api import login
from replayed_dcgm import replayed
from report_samples import small
from sample_exposition import certificates, exposed, health, infiniband, link_speeds, nfs

if TYPE_CHECKING:
    from collections.abc import Iterator

    from conftest import Cluster

pytestmark = pytest.mark.proves("grafana", "prometheus")

BOARDS = dashboards()
# Metrics in queries: the required hardware and its replacement.
NEEDS = {
    "DCGM_": "a GPU: dcgm-exporter is replayed",
    "gpu:": "a GPU: dcgm-exporter is replayed",
    "node_infiniband_": "InfiniBand: a made exposition",
    "node_nfs": "a kernel that serves or mounts NFS: a made exposition",
    "busbar_certificate_": "monitoring_tls: a made exposition",
    "/(scratch": "a local scratch: a file system in memory is mounted there",
    "busbar_node_health_findings": "a node with a fault: a made exposition",
    "busbar_node_health_unknown": "a check that does not answer: a made exposition",
    'reason=~"busbar': "a node that busbar drained: one is drained in such words",
    "ALERTS": "an alert that fires: a rule that always does",
}
RULE = "/etc/prometheus/rules/busbar_test_dashboards.yml"
ALWAYS = {
    "groups": [
        {
            "name": "busbar_test_dashboards",
            "rules": [
                {"alert": name, "expr": "vector(1) > 0", "labels": {"severity": "info"}}
                for name in ("TestOfDashboards", "JobStalled")
            ],
        }
    ]
}
# One process sends all queries, because a call into a container takes longer than a query.
ASK = """
import json, sys, urllib.error, urllib.parse, urllib.request
(base, login), found = sys.argv[1:], {}
for name, expr in json.load(sys.stdin).items():
    form = urllib.parse.urlencode({"query": expr}).encode()
    asked = urllib.request.Request(base + "/api/v1/query", form, json.loads(login))
    try:
        with urllib.request.urlopen(asked, timeout=10) as answer:
            found[name] = len(json.load(answer)["data"]["result"])
    except urllib.error.HTTPError as exc:
        found[name] = exc.read().decode()
print(json.dumps(found))
"""
TIMEOUT_S = 45


def needs(expr: str) -> str | None:
    """Return the hardware that a query needs and a sandbox lacks, or None."""
    names = names_in(expr)
    for start, what in NEEDS.items():
        if any(name.startswith(start) for name in names) or (start.startswith(("/", "reason")) and start in expr):
            return what
    return None


class Prometheus:
    """Prometheus on the monitoring host."""

    def __init__(self, cluster: Cluster, values: dict[str, str]) -> None:
        """Store the values of the dashboards' variables."""
        self.cluster, self.values = cluster, values
        self.base = f"http://{load(cluster.name).address('ctl')}:9090"
        self.login = json.dumps(login(cluster.name))

    def counts(self, queries: dict[str, str]) -> dict[str, int | str]:
        """Return the number of series of each query, or the error as text."""
        command = ["podman", "exec", "-i", self.cluster.container("ctl"), "python3", "-c", ASK, self.base, self.login]
        done = subprocess.run(command, check=False, capture_output=True, text=True, input=json.dumps(queries))
        assert done.returncode == 0, done.stderr
        return dict(as_json(done.stdout))

    def sent(self, items: list[Asked]) -> dict[str, str]:
        """Return the expressions as Grafana sends them, by query name."""
        return {item.name: substituted(item.expr, self.values) for item in items}

    def empty_after(self, queries: dict[str, str], timeout: float = TIMEOUT_S) -> dict[str, str]:
        """Return the queries without data after the timeout; new targets are not scraped immediately."""
        deadline, left = time.monotonic() + timeout, dict(queries)
        while left and time.monotonic() < deadline:
            found = self.counts(left)
            broken = {name: said for name, said in found.items() if isinstance(said, str)}
            assert not broken, broken
            left = {name: expr for name, expr in left.items() if not found[name]}
            time.sleep(2 if left else 0)
        return left


@pytest.fixture(scope="module")
def job(sandbox: Cluster) -> Iterator[str]:
    """Run a job with one GPU on the first node."""
    sandbox.wait_idle()
    batch = f"sbatch --parsable --job-name=dashboards --nodelist={sandbox.compute[0]} --gres=gpu:1 --output=/dev/null"
    number = sandbox.exec("ctl", f"{batch} --wrap='sleep 300'").stdout.strip()
    try:
        state = f"squeue -h -j {number} -o %T"
        sandbox.wait_until(lambda: sandbox.exec("ctl", state).stdout.strip() == "RUNNING", f"job {number} does not run")
        yield number
    finally:
        sandbox.exec("ctl", f"scancel {number}")
        sandbox.wait_idle()


@pytest.fixture(scope="module")
def prometheus(sandbox: Cluster, job: str) -> Prometheus:
    """Return Prometheus, with variables for the first node and the running job."""
    names = {name for board in BOARDS.values() for name in variables(board)}
    values = dict.fromkeys(names, ".*") | {"node": sandbox.compute[0], "job": job}
    return Prometheus(sandbox, values | {"__rate_interval": "1m", "__interval": "15s", "__range": "10m"})


@contextlib.contextmanager
def scratch(cluster: Cluster, node: str) -> Iterator[None]:
    """Provide a file system at /scratch unless there is one."""
    there = cluster.exec(node, "mountpoint -q /scratch", check=False).returncode == 0
    if not there:
        cluster.exec(node, "mkdir -p /scratch && mount -t tmpfs -o size=16m busbar-test /scratch")
    try:
        yield
    finally:
        if not there:
            cluster.exec(node, "umount /scratch && rmdir /scratch")


@contextlib.contextmanager
def drained(cluster: Cluster) -> Iterator[None]:
    """Drain a node as the health check does."""
    node = cluster.compute[-1]
    cluster.exec("ctl", f"scontrol update nodename={node} state=drain reason='busbar: a test of dashboards'")
    try:
        yield
    finally:
        cluster.exec("ctl", f"scontrol update nodename={node} state=resume")


@contextlib.contextmanager
def alert(cluster: Cluster) -> Iterator[None]:
    """Make an alert fire. The rule file is JSON, which is valid YAML."""
    write = [
        "podman",
        "exec",
        "-i",
        cluster.container("ctl"),
        "bash",
        "-c",
        f"cat >{RULE} && systemctl reload prometheus",
    ]
    subprocess.run(write, check=True, capture_output=True, text=True, input=json.dumps(ALWAYS))
    try:
        yield
    finally:
        cluster.exec("ctl", f"rm -f {RULE} && systemctl reload prometheus")


@pytest.fixture(scope="module")
def validated(sandbox: Cluster, prometheus: Prometheus) -> Iterator[None]:
    """Provide a validation that measured the first node: the sandbox's last, or a report written by busbar's code."""
    if prometheus.counts({"": f'busbar_node_ceiling_bytes_per_second{{node="{sandbox.compute[0]}"}}'})[""]:
        yield
        return
    with exposed(sandbox, "ctl", metrics(normalised(small())), "validation"):
        yield


@pytest.fixture(scope="module")
def hardware(sandbox: Cluster, job: str) -> Iterator[None]:
    """Simulate the hardware in NEEDS; the job has the first GPU."""
    node = sandbox.compute[0]
    text = infiniband() + link_speeds() + nfs() + certificates() + health()
    with (
        exposed(sandbox, node, text),
        scratch(sandbox, node),
        alert(sandbox),
        drained(sandbox),
        replayed(sandbox, node) as dcgm,
    ):
        dcgm.jobs(node, 0, int(job))
        yield


@pytest.mark.usefixtures("validated")
def test_every_query_without_special_hardware_returns_data(prometheus: Prometheus) -> None:
    plain = [item for item in asked(BOARDS) if needs(item.expr) is None]
    assert len(plain) > 90
    assert prometheus.empty_after(prometheus.sent(plain)) == {}


@pytest.mark.usefixtures("hardware")
def test_every_query_of_special_hardware_returns_data_of_its_replacement(prometheus: Prometheus) -> None:
    special = [item for item in asked(BOARDS) if needs(item.expr)]
    assert len(special) > 60
    assert prometheus.empty_after(prometheus.sent(special)) == {}


@pytest.mark.usefixtures("validated", "hardware")
def test_every_variable_has_values(prometheus: Prometheus) -> None:
    """Queries label values of series as Grafana does. `cluster` is only set for shared metric stores."""
    queries = {}
    for name, board in BOARDS.items():
        for variable in variables(board).values():
            if variable["type"] != "query" or variable["name"] == "cluster":
                continue
            series, label = variable["query"]["query"].removeprefix("label_values(").removesuffix(")").rsplit(", ", 1)
            queries[f"{name} / {variable['name']}"] = f"count by ({label}) ({substituted(series, prometheus.values)})"
    assert len(queries) >= 8
    assert prometheus.empty_after(queries) == {}


def test_query_without_data_is_detected(prometheus: Prometheus) -> None:
    queries = {"there": "up", "nobody's": "busbar_nobody_has_this"}
    assert prometheus.empty_after(queries, timeout=3) == {"nobody's": "busbar_nobody_has_this"}
