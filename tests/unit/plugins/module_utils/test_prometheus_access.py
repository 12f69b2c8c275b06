"""The password with which Prometheus scrapes: in a file of its own, never in the configuration that all may read."""

from __future__ import annotations

import json
from typing import Any

from ansible_collections.busbar.cluster.plugins.module_utils.prometheus_plan import prometheus_plan

ACCESS = {
    "scheme": "https",
    "tls_config": {"ca_file": "/etc/busbar/tls/ca.crt"},
    "basic_auth": {"username": "prometheus", "password": "very-secret"},
}
SETTINGS: dict[str, Any] = {
    "source": "distribution",
    "packaged": True,
    "scrape_interval": "15s",
    "evaluation_interval": "15s",
    "external_labels": {"cluster": "alpha"},
    "jobs": {"node": {}, "slurm": {"secured": False}, "alertmanager": {}},
    "scrape_access": ACCESS,
    "scrape_extra": [],
    "alertmanagers": [],
    "alertmanager_access": ACCESS,
    "rules": {},
    "remote_write": [],
    "retention_time": "30d",
    "retention_size": "",
    "storage_path": "/var/lib/prometheus/metrics2",
    "listen": "10.0.0.10:9090",
    "external_url": "",
    "web_config": True,
    "arguments": [],
}


def test_the_password_is_led_to_files() -> None:
    plan = prometheus_plan(SETTINGS, "ctl")
    jobs = {each["job_name"]: each for each in plan["config"]["scrape_configs"]}
    led = jobs["node"]["basic_auth"]["password_file"], plan["config"]["alerting"]["alertmanagers"][0]["basic_auth"]
    assert {plan["secrets"][led[0]], plan["secrets"][led[1]["password_file"]]} == {"very-secret"}
    assert "very-secret" not in json.dumps(plan["config"]) + " ".join(plan["arguments"])
    assert jobs["node"]["scheme"] == plan["config"]["alerting"]["alertmanagers"][0]["scheme"] == "https"


def test_a_job_without_protection_is_sent_none() -> None:
    jobs = {each["job_name"]: each for each in prometheus_plan(SETTINGS, "ctl")["config"]["scrape_configs"]}
    assert not {"scheme", "tls_config", "basic_auth"} & set(jobs["slurm"])


def test_the_options_themselves_stay_as_they_are() -> None:
    prometheus_plan(SETTINGS, "ctl")
    assert ACCESS["basic_auth"] == {"username": "prometheus", "password": "very-secret"}
