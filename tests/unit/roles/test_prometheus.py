"""Tests of Prometheus' flags and configuration as the role writes them, and of refused options."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from role_files import named, rendered, value

JOBS: dict[str, Any] = {"node": {"config": {"honor_labels": True}}, "plain": {"secured": False}}
GIVEN: dict[str, Any] = {
    "prometheus_address": "10.0.0.1",
    "prometheus_alertmanager_access": {},
    "prometheus_external_labels": {"cluster": "c"},
    "__site_monitoring_tls_groups": [],
    "prometheus_jobs": JOBS,
    "__site_monitoring_client_config": {},
    "__site_monitoring_web_config": {},
}
PLAN = "{{ __prometheus_settings | busbar.cluster.prometheus_plan(inventory_hostname) }}"


def options(own: dict[str, Any]) -> dict[str, Any]:
    """Return variables of the role, of options without its prefix."""
    site = {name: own.pop(name) for name in [*own] if name.startswith("__site_")}
    return {**GIVEN, "__prometheus_plan": PLAN, **site, **named("prometheus", own)}


def config(**own: object) -> dict[str, Any]:
    """Return prometheus.yml."""
    return dict(yaml.safe_load(rendered("prometheus", "etc/prometheus/prometheus.yml.j2", **options(own))))


def flags(**own: object) -> list[str]:
    """Return program and flags as in the unit."""
    unit = "etc/systemd/system/prometheus.service.d/busbar.conf.j2"
    text = rendered("prometheus", unit, **options(own))
    command = text.partition("ExecStart=\nExecStart=")[2].partition("\nRestart=")[0]
    return command.replace("\\\n", "").split()


def test_flags() -> None:
    given: dict[str, Any] = {"arguments": ["--log.level=debug"], "storage_path": "/data"}
    given["__site_monitoring_web_config"] = {"a": 1}
    assert flags(retention_size="1TB", **given) == [
        "/usr/bin/prometheus",
        "--config.file=/etc/prometheus/prometheus.yml",
        '"--storage.tsdb.path=/data"',
        "--storage.tsdb.retention.time=90d",
        "--storage.tsdb.retention.size=1TB",
        "--storage.remote.flush-deadline=10s",
        "--web.config.file=/etc/prometheus/web.yml",
        '"--log.level=debug"',
        "--web.listen-address=10.0.0.1:9090",
    ]


def test_jobs_read_their_targets_from_files() -> None:
    access = {"scheme": "https", "tls_config": {"ca_file": "/ca"}}
    found = config(
        __site_monitoring_client_config=access,
        scrape_extra=[{"job_name": "x"}, {"job_name": "y", "params": {"a": ["b"]}}],
    )
    node, plain, *extra = found["scrape_configs"]
    assert node == {
        "job_name": "node",
        "file_sd_configs": [{"files": ["/etc/prometheus/targets/node.yml"], "refresh_interval": "30s"}],
        "honor_labels": True,
        **access,
    }
    assert set(plain) == {"job_name", "file_sd_configs"}
    assert extra == [{"job_name": "x"}, {"job_name": "y", "params": {"a": ["b"]}}]
    assert found["global"]["external_labels"] == {"cluster": "c"}


def test_alerts_are_sent_to_local_and_additional_alertmanagers() -> None:
    assert "alerting" not in config()
    access = {"scheme": "https", "basic_auth": {"username": "u", "password": "hidden"}}
    given: dict[str, Any] = {"jobs": {"alertmanager": {}}, "alertmanagers": ["a:9093"], "alertmanager_access": access}
    (found,) = config(**given)["alerting"]["alertmanagers"]
    assert found["file_sd_configs"][0]["files"] == ["/etc/prometheus/targets/alertmanager.yml"]
    assert found["static_configs"] == [{"targets": ["a:9093"]}]
    assert found["basic_auth"] == {
        "username": "u",
        "password_file": "/etc/prometheus/secrets/alertmanager_access_0_password",
    }


def test_samples_are_copied_by_remote_write() -> None:
    assert "remote_write" not in config()
    assert config(remote_write=[{"url": "https://m.site/w"}])["remote_write"] == [{"url": "https://m.site/w"}]


@pytest.mark.parametrize(
    ("family", "own", "words"),
    [
        ("RedHat", {}, "prometheus_source: this distribution does not package it"),
        ("Debian", {"arguments": ["--a\n--b"]}, "prometheus_arguments: '--a\\n--b' contains a line break"),
        ("Debian", {"retention_time": "3 months"}, "prometheus_retention_time: '3 months' is not a duration"),
        (
            "Debian",
            {"alerts": {"NodeDwn": {"enabled": False}}},
            "prometheus_alerts.NodeDwn: is not the name of an alert",
        ),
    ],
)
def test_refused(family: str, own: dict[str, Any], words: str) -> None:
    (problem,) = value("prometheus", "__prometheus_plan", family=family, **options(own))["problems"]
    assert words in f"{problem['key']}: {problem['problem']}"
    assert problem["hosts"] == ["gpu7"]
    assert problem["remedy"]
