"""Tests of the alert rules in a running Prometheus: evaluation, no alerts without cause, changes by a site."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from prometheus_api import Prometheus

if TYPE_CHECKING:
    from conftest import Cluster

pytestmark = pytest.mark.proves("prometheus")

# Depends on the last validation, which other tests make fail on purpose.
OF_THE_LAST_VALIDATION = {"ValidationFailed", "ValidationInconclusive", "NodeBandwidthBelowFloor", "NodeCheckFailed"}
CHANGES = {
    "GpuTooHot": {"threshold": 80, "for": "10m", "severity": "critical"},
    "RaidDegraded": {"enabled": False},
}


def asked(sandbox: Cluster, path: str) -> Any:  # noqa: ANN401 - any JSON
    return Prometheus(sandbox.name).get(path)


def rules(sandbox: Cluster) -> dict[str, dict[str, Any]]:
    return {rule["name"]: rule for group in asked(sandbox, "rules")["groups"] for rule in group["rules"]}


def prometheus(sandbox: Cluster, *arguments: str) -> tuple[int, str]:
    done = sandbox.playbook("monitoring.yml", "--tags", "prometheus", "--limit", "ctl", *arguments)
    return done.returncode, done.stdout


def test_promtool_accepts_the_installed_configuration(sandbox: Cluster) -> None:
    sandbox.exec("ctl", "promtool check config /etc/prometheus/prometheus.yml")


def test_every_rule_is_evaluated(sandbox: Cluster) -> None:
    def all_were() -> bool:
        return all(rule["health"] == "ok" for rule in rules(sandbox).values())

    sandbox.wait_until(all_were, "rules are not worked out", timeout=20)
    assert {"Watchdog", "NodeDown", "SlurmctldDown", "GpuXidFatal", "ValidationFailed"} <= set(rules(sandbox))


def test_only_the_watchdog_fires_on_a_healthy_cluster(sandbox: Cluster) -> None:
    sandbox.wait_idle()

    def firing() -> set[str]:
        return {
            alert["labels"]["alertname"] for alert in asked(sandbox, "alerts")["alerts"] if alert["state"] == "firing"
        }

    sandbox.wait_until(
        lambda: firing() - OF_THE_LAST_VALIDATION == {"Watchdog"}, f"firing: {sorted(firing())}", timeout=60
    )


def test_changes_of_a_site_apply_at_once_and_can_be_undone(sandbox: Cluster) -> None:
    before = rules(sandbox)
    try:
        code, said = prometheus(sandbox, "-e", json.dumps({"prometheus_alerts": CHANGES}))
        changed = rules(sandbox)
    finally:
        undone, said_undone = prometheus(sandbox)
    assert code == 0, said
    hot = changed["GpuTooHot"]
    assert (hot["duration"], hot["labels"]["severity"], hot["annotations"]["threshold"]) == (600, "critical", "80")
    assert hot["query"].endswith("> 80")
    assert set(before) - set(changed) == {"RaidDegraded"}
    assert undone == 0, said_undone
    after = rules(sandbox)
    assert after["GpuTooHot"]["query"] == before["GpuTooHot"]["query"]
    assert set(after) == set(before)


def test_invalid_change_is_refused_before_anything_is_written(sandbox: Cluster) -> None:
    wrong = {"GpuTooHott": {}, "NodeDown": {"threshold": 1, "for": "5 min"}}
    before = sandbox.exec("ctl", "ls -l --time-style=full-iso /etc/prometheus/rules").stdout
    code, said = prometheus(sandbox, "-e", json.dumps({"prometheus_alerts": wrong}))
    assert code != 0
    for words in (
        "ctl: prometheus_alerts.GpuTooHott: is not the name of an alert",
        "did you mean GpuTooHot?",
        "ctl: prometheus_alerts.NodeDown.threshold:",
        "ctl: prometheus_alerts.NodeDown.for: '5 min' is not a duration",
    ):
        assert words in said
    assert sandbox.exec("ctl", "ls -l --time-style=full-iso /etc/prometheus/rules").stdout == before
