"""Tests of Prometheus and its exporters: scraped targets, rejected options, and the effect of changes on daemons."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from conftest import recap
from prometheus_api import Prometheus
from test_hosts import sees_all_processes

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator, Mapping

    from conftest import Cluster

pytestmark = pytest.mark.proves("prometheus", "node_exporter", "site")

CHECKSUMS = "find /etc/prometheus /etc/systemd/system/prometheus.service.d -type f | sort | xargs sha256sum"
PROCESS = "systemctl show -p MainPID -p ExecMainStartTimestampMonotonic --value prometheus"
ONLY = ("--limit", "ctl", "--tags", "prometheus")


@pytest.fixture(scope="module")
def prometheus(sandbox: Cluster) -> Prometheus:
    """Return the sandbox's Prometheus."""
    return Prometheus(sandbox.name)


def everybody(sandbox: Cluster) -> set[str]:
    return {"ctl", "login", *sandbox.compute}


def refused(sandbox: Cluster, *arguments: str) -> str:
    """Check that a run fails before any change and return its output."""
    before = sandbox.exec("ctl", CHECKSUMS).stdout + sandbox.exec("ctl", PROCESS).stdout
    done = sandbox.playbook("monitoring.yml", *ONLY, *arguments)
    assert done.returncode == 2, done.stdout
    assert recap(done.stdout)["ctl"]["changed"] == 0
    assert sandbox.exec("ctl", CHECKSUMS).stdout + sandbox.exec("ctl", PROCESS).stdout == before
    return done.stdout


@pytest.mark.core
def test_all_targets_are_up_including_controllers_and_login_nodes(sandbox: Cluster, prometheus: Prometheus) -> None:
    prometheus.wait(lambda: all(each["health"] == "up" for each in prometheus.targets()), "not every target is up")
    found = prometheus.targets()
    assert {each["labels"]["instance"] for each in found if each["labels"]["job"] == "node"} == everybody(sandbox)
    assert {"node", "prometheus"} <= {each["labels"]["job"] for each in found}


@pytest.mark.core
def test_node_exporter_reads_host_mounts_although_processes_are_hidden(sandbox: Cluster) -> None:
    """It reads /proc/1, because its own mounts have other options."""
    assert sees_all_processes(sandbox, "prometheus-node-exporter")
    mounts = "grep -c . /proc/$(pidof prometheus-node-exporter)/root/proc/1/mountinfo"
    user = "setpriv --reuid=prometheus --regid=prometheus --groups=$(getent group busbar-proc | cut -d: -f3)"
    assert sandbox.exec("login", f"{user} {mounts}").stdout == sandbox.exec("login", mounts).stdout


def test_metrics_have_labels_for_node_and_hardware(sandbox: Cluster, prometheus: Prometheus) -> None:
    found = {labels["node"]: labels.get("hardware") for labels, _ in prometheus.query("node_load1")}
    hardware = dict.fromkeys(sandbox.compute, "sandbox_gpu")
    assert found == {"ctl": None, "login": None, **hardware}
    expected = {labels["node"]: value for labels, value in prometheus.query("busbar_node_expected_gpus")}
    assert expected["ctl"] == 0
    assert {expected[node] for node in sandbox.compute} == {2}
    assert prometheus.value('node_systemd_unit_state{node="ctl",name="slurmctld.service",state="active"}') == 1


# Requires a munge version that does not exist yet.
NEWER = """
import json
path = "/usr/local/lib/busbar/package_watch.json"
table = json.load(open(path))
(munge,) = (each for each in table["products"] if each["key"] == "munge")
munge["upstream"] = ["99.0.0"]
for each in munge["distributions"]:
    each["fixed"] = None
json.dump(table, open(path, "w"))
"""


@pytest.mark.scenario
def test_vulnerable_package_becomes_a_metric(sandbox: Cluster, prometheus: Prometheus) -> None:
    node = sandbox.compute[0]
    query = f'busbar_package_vulnerable{{node="{node}",package="munge"}}'
    assert sandbox.exec(node, "systemctl is-enabled busbar-package-watch.timer").stdout.strip() == "enabled"
    prometheus.wait(lambda: not prometheus.query(query), "munge of the distribution is reported")
    sandbox.exec(node, f"python3 -c '{NEWER}' && systemctl start busbar-package-watch")
    prometheus.wait(lambda: bool(prometheus.query(query)), "an old munge is not reported")
    done = sandbox.playbook("monitoring.yml", "--limit", node, "--tags", "node_exporter")
    assert done.returncode == 0, done.stdout
    sandbox.exec(node, "systemctl start busbar-package-watch")
    prometheus.wait(lambda: not prometheus.query(query), "munge is still reported")


def test_exporters_listen_only_on_the_cluster_network(sandbox: Cluster) -> None:
    for node, programs in (("ctl", {"prometheus", "prometheus-node"}), (sandbox.compute[0], {"prometheus-node"})):
        found = [line.split() for line in sandbox.exec(node, "ss -Hltnp | grep '\"prometheus'").stdout.splitlines()]
        listening = {words[-1].split('"')[1]: words[3].rpartition(":")[0] for words in found}
        # Every client of Alertmanager can silence alerts.
        assert listening.pop("prometheus-aler", "127.0.0.1") == "127.0.0.1"
        address = sandbox.exec(node, f"getent ahostsv4 {node} | awk 'NR==1 {{print $1}}'").stdout.strip()
        assert listening == dict.fromkeys(programs, address)


def test_limited_second_run_changes_nothing_and_keeps_all_targets(sandbox: Cluster, prometheus: Prometheus) -> None:
    done = sandbox.playbook("monitoring.yml", "--limit", f"ctl,{sandbox.compute[-1]}", "--diff")
    assert done.returncode == 0, done.stdout
    assert {counts["changed"] for counts in recap(done.stdout).values()} == {0}, done.stdout
    assert {each["labels"]["instance"] for each in prometheus.targets()} >= everybody(sandbox)


def test_invalid_retention_is_refused(sandbox: Cluster) -> None:
    said = refused(sandbox, "-e", "prometheus_retention_time='3 months'", "-e", "prometheus_retention_size=200G")
    assert "ctl: prometheus_retention_time: '3 months' is not a duration such as" in said
    assert "ctl: prometheus_retention_size: '200G' is not a size such as" in said
    assert "remedy: use a duration such as 30d" in said


@pytest.fixture
def squatter(sandbox: Cluster) -> Iterator[tuple[int, int]]:
    """Start a web server on the controller; yields its port and PID."""
    start = "nohup python3 -m http.server --bind 0.0.0.0 9555 >/dev/null 2>&1 & echo $!"
    pid = int(sandbox.exec("ctl", start).stdout)
    sandbox.wait_until(lambda: ":9555" in sandbox.exec("ctl", "ss -Hltn").stdout, "the web server does not listen", 20)
    yield 9555, pid
    sandbox.exec("ctl", f"kill {pid}")


@pytest.mark.fault(
    "Prometheus' port is taken",
    says="is held by python3 -m http.server",
    heals="end the program, or choose another port",
)
def test_port_in_use_is_reported_with_its_process(sandbox: Cluster, squatter: tuple[int, int]) -> None:
    port, pid = squatter
    said = refused(sandbox, "-e", f"{{prometheus_port: {port}}}")
    assert f"prometheus_port: 0.0.0.0 port {port} is held by python3 -m http.server" in said
    assert f"(pid {pid}" in said
    done = sandbox.playbook("preflight.yml", "--limit", "ctl", "-e", f"{{prometheus_port: {port}}}")
    assert done.returncode == 2
    assert f"(pid {pid}" in done.stdout


def run_rules(sandbox: Cluster, rules: list[dict[str, object]]) -> subprocess.CompletedProcess[str]:
    """Run the role with rules of the site."""
    groups = {"site": [{"name": "site_group", "rules": rules}]} if rules else {}
    return sandbox.playbook("monitoring.yml", *ONLY, "-e", json.dumps({"prometheus_rules": groups}))


def test_rules_are_reloaded_without_restart_and_invalid_rules_change_nothing(
    sandbox: Cluster, prometheus: Prometheus
) -> None:
    good: list[dict[str, object]] = [{"record": "site:answer", "expr": "vector(42)"}]
    process = sandbox.exec("ctl", PROCESS).stdout
    try:
        done = run_rules(sandbox, good)
        assert done.returncode == 0, done.stdout
        prometheus.wait(lambda: prometheus.value("site:answer") == 42, "the new rule is not worked out")
        broken = json.dumps({"prometheus_rules": {"site": [{"name": "g", "rules": [{"record": "a", "expr": "sum("}]}]}})
        said = refused(sandbox, "-e", broken)
        assert "busbar_site.yml was not written" in said
        assert "could not parse expression" in said
        assert "site_group" in {group["name"] for group in prometheus.get("rules")["groups"]}
    finally:
        done = run_rules(sandbox, [])
    assert done.returncode == 0, done.stdout
    assert "site_group" not in {group["name"] for group in prometheus.get("rules")["groups"]}
    assert sandbox.exec("ctl", PROCESS).stdout == process


def test_stopped_exporter_is_detected(sandbox: Cluster, prometheus: Prometheus) -> None:
    node = sandbox.compute[-1]
    up = f'up{{job="node",instance="{node}"}}'
    sandbox.exec(node, "systemctl stop prometheus-node-exporter")
    try:
        prometheus.wait(lambda: prometheus.value(up) == 0, f"{node} is still up")
    finally:
        sandbox.exec(node, "systemctl start prometheus-node-exporter")
    prometheus.wait(lambda: prometheus.value(up) == 1, f"{node} is still down")


def test_passwords_of_additional_scrapes_are_private_and_hidden_in_diffs(sandbox: Cluster) -> None:
    """One is in its own file; Prometheus has no file option for the other, so users cannot read the configuration."""
    access = {"basic_auth": {"username": "u", "password": "hush-hush-1"}}
    found = {"static_configs": [{"targets": ["127.0.0.1:9"]}], "proxy_url": "http://u:hush-hush-2@127.0.0.1:9"}
    config = "/etc/prometheus/prometheus.yml"

    def run(*entries: Mapping[str, object]) -> str:
        extra = json.dumps(
            {"prometheus_scrape_extra": [{"job_name": f"x{n}", **each} for n, each in enumerate(entries)]}
        )
        done = sandbox.playbook("monitoring.yml", *ONLY, "--diff", "-vvv", "-e", extra)
        assert done.returncode == 0, done.stdout
        return done.stdout

    try:
        said = run(access, found)
        reachable = "grep -rs hush-hush /etc/prometheus /var/lib/busbar /var/lib/prometheus /proc/*/cmdline"
        assert sandbox.exec("ctl", reachable, user="alice", check=False).stdout == ""
        assert "TASK [busbar.cluster.prometheus" in said
        assert "hush-hush" not in said[said.index("TASK [") :]
        assert sandbox.exec("ctl", f"stat -c '%a %U %G' {config}").stdout == "640 root prometheus\n"
        assert "hush-hush-1" not in sandbox.exec("ctl", f"cat {config}").stdout
        own_file = sandbox.exec(
            "ctl", "grep -l hush-hush-1 /etc/prometheus/secrets/* | xargs stat -c '%a %U %G'"
        ).stdout
        assert own_file == "640 root prometheus\n"
    finally:
        run()
    assert sandbox.exec("ctl", f"stat -c '%a %U %G' {config}").stdout == "644 root root\n"
    assert sandbox.exec("ctl", "grep -rls hush-hush /etc/prometheus", check=False).stdout == ""
