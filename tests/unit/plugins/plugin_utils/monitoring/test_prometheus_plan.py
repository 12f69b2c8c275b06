"""Prometheus' configuration and flags from the options of a site, and what is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest
from ansible_collections.busbar.cluster.plugins.plugin_utils.monitoring.prometheus_plan import (
    duration_seconds,
    prometheus_plan,
    prometheus_problems,
    size_bytes,
)

JOBS = {"node": {"config": {"honor_labels": True}}, "plain": {"secured": False}}


def settings(**own: Any) -> dict[str, Any]:  # noqa: ANN401 - any option
    return {
        "source": "distribution",
        "packaged": True,
        "archives": {},
        "architecture": "x86_64",
        "program": "/usr/bin/prometheus",
        "address": "10.0.0.1",
        "port": 9090,
        "external_url": "",
        "storage_path": "/data",
        "retention_time": "90d",
        "retention_size": "",
        "scrape_interval": "15s",
        "evaluation_interval": "15s",
        "external_labels": {"cluster": "c"},
        "jobs": JOBS,
        "scrape_access": {},
        "scrape_extra": [],
        "alertmanagers": [],
        "alertmanager_access": {},
        "rules": {},
        "remote_write": [],
        "arguments": [],
        "web_config": False,
        **own,
    }


def told(**own: Any) -> list[str]:  # noqa: ANN401 - any option
    return [f"{each['key']}: {each['problem']}" for each in prometheus_problems(settings(**own), "ctl")]


@pytest.mark.parametrize(
    ("text", "seconds"), [("15s", 15), ("1h30m", 5400), ("90d", 7776000), ("1y6w", 35164800), ("500ms", 0.5), ("0s", 0)]
)
def test_durations(text: str, seconds: float) -> None:
    assert duration_seconds(text) == seconds


@pytest.mark.parametrize("text", ["", "15", "3 months", "1.5d", "-1d", "30D", "5s1h", "d"])
def test_no_durations(text: str) -> None:
    with pytest.raises(ValueError, match="is no duration such as"):
        duration_seconds(text)


@pytest.mark.parametrize(("text", "size"), [("1B", 1), ("512MB", 512 << 20), ("200GB", 200 << 30), ("1TB", 1 << 40)])
def test_sizes(text: str, size: int) -> None:
    assert size_bytes(text) == size


@pytest.mark.parametrize("text", ["", "200", "200G", "200 GB", "200gb", "1.5TB", "-1GB", "200GiB"])
def test_no_sizes(text: str) -> None:
    with pytest.raises(ValueError, match="is no size such as"):
        size_bytes(text)


@pytest.mark.parametrize(
    ("own", "words"),
    [
        ({"retention_time": "3 months"}, "prometheus_retention_time: '3 months' is no duration"),
        ({"retention_time": "0s"}, "prometheus_retention_time: '0s' is no time"),
        ({"retention_size": "200G"}, "prometheus_retention_size: '200G' is no size"),
        ({"retention_size": "0B"}, "prometheus_retention_size: '0B' keeps nothing"),
        ({"scrape_interval": "fast"}, "prometheus_scrape_interval: 'fast' is no duration"),
        ({"rules": {"Bad Name": []}}, "prometheus_rules: 'Bad Name' is no name of a file"),
        ({"rules": {"site": {"groups": []}}}, "prometheus_rules.site: is no list of groups"),
        ({"remote_write": [{"url": "metrics.site"}]}, "prometheus_remote_write[0]: url 'metrics.site' is no http"),
        ({"remote_write": [{"url": "https://prom.example.com/w"}]}, "is a placeholder"),
        ({"remote_write": [{"url": "https://m.site/w", "sigv4": {"secret_key": "x"}}]}, "sigv4.secret_key"),
    ],
)
def test_refused(own: dict[str, Any], words: str) -> None:
    (line,) = told(**own)
    assert words in line


def test_a_distribution_without_it_is_told_of() -> None:
    (problem,) = prometheus_plan(settings(packaged=False), "ctl")["problems"]
    assert problem["key"] == "prometheus_source"
    assert "prometheus_archives" in problem["remedy"]


def test_what_is_declared_well_is_fine() -> None:
    assert told(retention_time="", retention_size="1TB", rules={"site": [{"name": "g", "rules": []}]}) == []


def test_an_argument_of_two_lines_is_refused() -> None:
    (problem,) = prometheus_plan(settings(arguments=["--a\n--b"]), "ctl")["problems"]
    assert (problem["hosts"], problem["key"]) == (["ctl"], "prometheus_arguments")
    assert "line break" in problem["problem"]


def test_command() -> None:
    plan = prometheus_plan(settings(retention_size="1TB", web_config=True, arguments=["--log.level=debug"]), "ctl")
    assert plan["listen"] == "10.0.0.1:9090"
    assert plan["command"].split(" \\\n  ") == [
        "/usr/bin/prometheus",
        "--config.file=/etc/prometheus/prometheus.yml",
        "--storage.tsdb.path=/data",
        "--storage.tsdb.retention.time=90d",
        "--storage.tsdb.retention.size=1TB",
        "--web.listen-address=10.0.0.1:9090",
        "--storage.remote.flush-deadline=10s",
        "--web.config.file=/etc/prometheus/web.yml",
        "--log.level=debug",
    ]


def test_jobs_read_their_targets_from_files() -> None:
    access = {"scheme": "https"}
    node, plain, extra = prometheus_plan(settings(scrape_access=access, scrape_extra=[{"job_name": "x"}]), "ctl")[
        "config"
    ]["scrape_configs"]
    assert node["honor_labels"] is True
    assert node["scheme"] == "https"
    assert node["file_sd_configs"][0]["files"] == ["/etc/prometheus/targets/node.yml"]
    assert "scheme" not in plain
    assert extra == {"job_name": "x"}


def test_alerts_go_to_the_clusters_own_and_further_alertmanagers() -> None:
    assert "alerting" not in prometheus_plan(settings(), "ctl")["config"]
    jobs: dict[str, dict[str, Any]] = {"alertmanager": {}}
    (found,) = prometheus_plan(settings(jobs=jobs, alertmanagers=["a:9093"]), "ctl")["config"]["alerting"][
        "alertmanagers"
    ]
    assert found["file_sd_configs"][0]["files"] == ["/etc/prometheus/targets/alertmanager.yml"]
    assert found["static_configs"] == [{"targets": ["a:9093"]}]


def test_secrets_are_moved_to_files() -> None:
    remote: list[dict[str, Any]] = [
        {"url": "https://a.site/w", "basic_auth": {"username": "u", "password": "hidden1"}},
        {"url": "https://b.site/w", "authorization": {"credentials": "hidden2"}, "tls_config": {"key": "hidden3"}},
        {"url": "https://c.site/w", "bearer_token": "hidden4", "oauth2": {"client_secret": "hidden5"}},
    ]
    plan = prometheus_plan(settings(remote_write=remote), "ctl")
    assert sorted(plan["secrets"].values()) == [f"hidden{n}" for n in range(1, 6)]
    assert "hidden" not in json.dumps(plan["config"])
    first, second, third = plan["config"]["remote_write"]
    assert first["basic_auth"] == {
        "username": "u",
        "password_file": "/etc/prometheus/secrets/remote_write_0_password",
    }
    assert second["tls_config"] == {"key_file": "/etc/prometheus/secrets/remote_write_1_key"}
    assert third["authorization"]["type"] == "Bearer"
    assert remote[0]["basic_auth"]["password"] == "hidden1", "what the site declares is left as it is"  # noqa: S105
