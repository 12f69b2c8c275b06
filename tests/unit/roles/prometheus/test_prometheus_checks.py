"""Tests of the preflight checks of monitoring."""

from __future__ import annotations

from typing import Any

from ansible_collections.busbar.cluster.roles.prometheus.checks import check_inventory

JOBS = {"node": {"hosts": ["ctl", "gpu1"], "exporter": "node_exporter", "port": 9100}}


def told(hosts: list[str], **variables: Any) -> list[str]:  # noqa: ANN401 - any variable
    site = {
        "ctl": {"ansible_host": "10.0.0.1", "monitoring_address": "10.0.0.1", **variables},
        "gpu1": {"ansible_host": "10.0.0.2", "monitoring_address": "10.0.0.2", **variables},
    }
    found = check_inventory({}, {"monitoring": hosts, "hostvars": site, "catalogue": {}, "monitoring_jobs": JOBS})
    assert all(item["remedy"] for item in found)
    return [f"{','.join(item['hosts'])} {item['key']}: {item['problem']}" for item in found]


def test_valid_site_and_site_without_monitoring_are_accepted() -> None:
    assert told(["ctl"]) == []
    assert told([], prometheus_retention_time="3 months") == []


def test_invalid_retention_is_refused() -> None:
    (line,) = told(["ctl"], prometheus_retention_time="3 months")
    assert line.startswith("ctl prometheus_retention_time: '3 months' is not a duration")


def test_hosts_with_the_same_scrape_address_are_refused() -> None:
    (line,) = told(["ctl"], monitoring_address="10.0.0.9")
    assert line.startswith("ctl,gpu1 monitoring_address")


def test_hosts_with_the_same_inventory_address_are_not_reported_here() -> None:
    assert told(["ctl"], monitoring_address="10.0.0.9", ansible_host="10.0.0.9") == []


def test_third_monitoring_host_is_refused() -> None:
    assert told(["ctl", "gpu1"]) == []
    (line,) = told(["ctl", "gpu1", "ctl"])
    assert line.startswith("ctl,gpu1,ctl monitoring: 3 hosts are in the group (supported: 1 or 2)")


def test_overrides_of_unknown_alerts_and_of_alerts_of_the_site_are_refused() -> None:
    alerts = {"GpuTooHott": {"threshold": 80}, "SlurmNodeDown": {"severity": "critical"}, "DiskSlow": {"for": "5m"}}
    own = {"site": [{"name": "site", "rules": [{"alert": "DiskSlow", "expr": "up == 0"}]}]}
    (line,) = told(["ctl"], prometheus_alerts=alerts, prometheus_rules=own)
    assert line.startswith("ctl prometheus_alerts.GpuTooHott: is not the name of an alert")
