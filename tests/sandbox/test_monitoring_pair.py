"""Tests of two monitoring hosts that watch the cluster and each other: one message per fault, from either host."""

from __future__ import annotations

import contextlib
import json
import time
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from alert_delivery import HTTP_PORT, Sink
from conftest import Cluster, recap
from prometheus_api import Prometheus

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = [pytest.mark.proves("prometheus", "alertmanager")]

PAIR = ("ctl", "login")
# Intervals are shortened for the test. The receiver is not on a host of the pair.
SITE: dict[str, Any] = {
    # This cluster has no Slurm.
    "slurm_metrics_source": "none",
    "alertmanager_receivers": {"people": [{"webhook": {"url": f"http://gpu1:{HTTP_PORT}/people"}}]},
    "alertmanager_routes": {"critical": "people", "warning": "people", "info": "none"},
    "alertmanager_group_wait": "2s",
    # Longer than PEER_TIMEOUT_S, as by default: while one instance waits for the other, its view of a group is
    # outdated.
    "alertmanager_group_interval": "20s",
    "prometheus_alerts": {
        "ClockNotSynchronised": {"enabled": False},
        "ClusterUnitFailed": {"for": "0s"},
        "MonitoringPeerDown": {"for": "0s"},
    },
}
FAULT = "systemd-run --quiet --wait --unit {0} false; systemctl is-failed {0}"
# The time that an Alertmanager waits for the previous instance in the list: --cluster.peer-timeout.
PEER_TIMEOUT_S = 15


@pytest.fixture(scope="module")
def cluster(sandbox_name: str) -> Iterator[Cluster]:
    """Return a sandbox with two hosts in the group monitoring, without the other services of a site."""
    one = Cluster(f"{sandbox_name}-pair")
    made = one.busbar("sandbox", "up", "--name", one.name, "--compute", "1", "--gpus", "1")
    assert made.returncode == 0, made.stderr
    more: dict[str, Any] = {"all": {"children": {"monitoring": {"hosts": {"login": {}}}}}}
    (one.inventory / "pair.yml").write_text(json.dumps(more), "utf-8")
    (one.inventory / "group_vars" / "all" / "zz_zz_pair.yml").write_text(json.dumps(SITE), "utf-8")
    for playbook in ("base.yml", "monitoring.yml"):
        done = one.playbook(playbook, timeout=1800)
        assert done.returncode == 0, done.stdout[-3000:]
    yield one
    gone = one.busbar("sandbox", "down", "--name", one.name)
    assert gone.returncode == 0, gone.stderr


@pytest.fixture(scope="module")
def sink(cluster: Cluster) -> Iterator[Sink]:
    """Return the receiver of all messages."""
    sink = Sink(cluster, "gpu1")
    yield sink
    sink.stop()


def prometheus(one: Cluster, node: str) -> Prometheus:
    asked = Prometheus(one.name)
    asked.url = asked.url.replace(load_address(one, "ctl"), load_address(one, node))
    return asked


def load_address(one: Cluster, node: str) -> str:
    return one.exec(node, "hostname -I").stdout.split()[0]


def told_of(sink: Sink, text: str, status: str = "firing") -> list[dict[str, Any]]:
    """Return the messages with alerts whose labels contain a text."""
    return [
        message
        for message in sink.messages()
        if any(text in json.dumps(alert["labels"]) and alert["status"] == status for alert in message["body"]["alerts"])
    ]


def said_by_both(sink: Sink, text: str) -> list[str]:
    """Return the senders of an identical message about such an alert, if both sent it."""
    said: dict[str, set[str]] = {}
    for message in told_of(sink, text):
        alerts = sorted((alert["fingerprint"], alert["status"]) for alert in message["body"]["alerts"])
        said.setdefault(json.dumps(alerts), set()).add(message["body"]["externalURL"])
    return sorted({sender for senders in said.values() if len(senders) > 1 for sender in senders})


def gives(asked: Prometheus, expression: str, value: float) -> bool:
    # A starting Prometheus answers 503 until it has replayed its WAL.
    with contextlib.suppress(OSError):
        return asked.value(expression) == value
    return False


def fires_on(one: Cluster, node: str, text: str) -> bool:
    return any(text in json.dumps(labels) for labels, _ in prometheus(one, node).query('ALERTS{alertstate="firing"}'))


def test_both_scrape_all_targets_and_alertmanagers_form_a_cluster(cluster: Cluster) -> None:
    for node in PAIR:
        asked = prometheus(cluster, node)
        asked.wait(partial(gives, asked, 'count(up{job="node"} == 1)', 3), "not all are scraped", 90)
        asked.wait(partial(gives, asked, "min(alertmanager_cluster_members)", 2), "no cluster", 90)
        asked.wait(partial(gives, asked, "prometheus_notifications_alertmanagers_discovered", 2), "no", 60)
    done = cluster.playbook("monitoring.yml")
    assert done.returncode == 0, done.stdout[-3000:]
    assert {counts["changed"] for counts in recap(done.stdout).values()} == {0}, done.stdout[-3000:]


def test_fault_seen_by_both_is_sent_once(cluster: Cluster, sink: Sink) -> None:
    cluster.exec("gpu1", FAULT.format("busbar-first-fault"))
    for node in PAIR:
        prometheus(cluster, node).wait(partial(fires_on, cluster, node, "busbar-first-fault"), "it does not fire", 60)
    sink.wait_for(lambda: told_of(sink, "busbar-first-fault") != [], "nobody is told", 90)
    # Longer than the second instance waits for the first; there is no condition to wait for, because nothing must
    # happen.
    began = time.monotonic()
    while time.monotonic() - began < 2 * PEER_TIMEOUT_S:
        assert len(told_of(sink, "busbar-first-fault")) == 1
        assert said_by_both(sink, "busbar-first-fault") == []
        time.sleep(1)


def test_silence_is_replicated_to_the_other_host(cluster: Cluster) -> None:
    amtool = "amtool --alertmanager.url=http://{} "
    header = "--http.config.file=/run/amtool.yml"
    password = (cluster.state / "secrets/monitoring.password").read_text("utf-8").strip()
    for node in PAIR:
        access = json.dumps({"basic_auth": {"username": "prometheus", "password": password}})
        cluster.exec(node, f"cat >/run/amtool.yml <<'END'\n{access}\nEND\nchmod 600 /run/amtool.yml")
    address = {node: f"{load_address(cluster, node)}:9093" for node in PAIR}
    made = "silence add --author=test --comment=test --duration=1h alertname=Nothing"
    number = cluster.exec("ctl", f"{amtool.format(address['ctl'])} {header} {made}").stdout.strip()
    asked = f"{amtool.format(address['login'])} {header} silence query -q"
    cluster.wait_until(lambda: number in cluster.exec("login", asked).stdout, "the other one does not know it", 60)


def test_remaining_host_reports_the_lost_one_and_other_faults_once(
    cluster: Cluster, sink: Sink, record_property: Callable[[str, object], None]
) -> None:
    cluster.exec(
        "ctl",
        "systemctl kill -s KILL prometheus prometheus-alertmanager; systemctl stop prometheus prometheus-alertmanager",
    )
    began, died = time.monotonic(), time.time()
    try:
        left = prometheus(cluster, "login")
        sink.wait_for(lambda: told_of(sink, "MonitoringPeerDown") != [], "nobody is told of the peer", 120)
        record_property("told of the peer after, s", round(time.monotonic() - began))
        cluster.exec("gpu1", FAULT.format("busbar-second-fault"))
        left.wait(lambda: fires_on(cluster, "login", "busbar-second-fault"), "it does not fire", 60)
        began = time.monotonic()
        sink.wait_for(lambda: told_of(sink, "busbar-second-fault") != [], "nobody is told", 90)
        record_property("told of a fault after, s", round(time.monotonic() - began))
        # History is complete, too: from before the failure until now, without a gap of more than two scrapes.
        now = time.time()
        past = now - died + 30
        curve = left.get(
            "query_range", query='up{job="node",node="gpu1"}', start=str(now - past), end=str(now), step="5"
        )
        assert len(curve["result"]) == 1
        assert len(curve["result"][0]["values"]) >= past // 5 - 2
        assert said_by_both(sink, "busbar-second-fault") == []
    finally:
        cluster.exec("ctl", "systemctl start prometheus prometheus-alertmanager")


def test_recovered_host_rejoins_and_faults_are_sent_once(cluster: Cluster, sink: Sink) -> None:
    for node in PAIR:
        asked = prometheus(cluster, node)
        asked.wait(partial(gives, asked, "min(alertmanager_cluster_members)", 2), "no cluster", 90)
    sink.wait_for(lambda: told_of(sink, "MonitoringPeerDown", "resolved") != [], "nobody is told of its return", 120)
    cluster.exec("gpu1", FAULT.format("busbar-third-fault"))
    for node in PAIR:
        prometheus(cluster, node).wait(partial(fires_on, cluster, node, "busbar-third-fault"), "it does not fire", 60)
    sink.wait_for(lambda: told_of(sink, "busbar-third-fault") != [], "nobody is told", 90)
    began = time.monotonic()
    while time.monotonic() - began < 2 * PEER_TIMEOUT_S:
        assert said_by_both(sink, "busbar-third-fault") == []
        time.sleep(1)


def test_third_host_is_refused_before_any_change(cluster: Cluster) -> None:
    more: dict[str, Any] = {"all": {"children": {"monitoring": {"hosts": {"gpu1": {}}}}}}
    third = cluster.state / "third.yml"
    third.write_text(json.dumps(more), "utf-8")
    done = cluster.playbook("preflight.yml", "-i", str(third))
    said = " ".join((done.stdout + done.stderr).split())
    assert (done.returncode, "3 hosts are in the group (supported: 1 or 2)" in said) == (2, True)
    assert {counts["changed"] for counts in recap(done.stdout).values()} == {0}
