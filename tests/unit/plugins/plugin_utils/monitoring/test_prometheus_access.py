"""Tests that Prometheus' scrape password is in a separate file and not in the readable configuration."""

from __future__ import annotations

import json
from typing import Any

import pytest
from ansible_collections.busbar.cluster.plugins.plugin_utils.monitoring.prometheus_plan import prometheus_plan

ACCESS = {
    "scheme": "https",
    "tls_config": {"ca_file": "/etc/busbar/tls/ca.crt"},
    "basic_auth": {"username": "prometheus", "password": "very-secret"},
}
SETTINGS: dict[str, Any] = {
    "jobs": {"node": {}, "slurm": {"secured": False}, "alertmanager": {}},
    "scrape_access": ACCESS,
    "scrape_extra": [],
    "alertmanager_access": ACCESS,
    "remote_write": [],
}


def test_password_is_moved_to_files() -> None:
    plan = prometheus_plan(SETTINGS)
    for name in ("scrape_access", "alertmanager_access"):
        assert plan["secrets"][plan[name]["basic_auth"]["password_file"]] == "very-secret"
        assert plan[name]["scheme"] == "https"
    assert "very-secret" not in json.dumps({**plan, "secrets": {}})


def test_options_are_not_modified() -> None:
    prometheus_plan(SETTINGS)
    assert ACCESS["basic_auth"] == {"username": "prometheus", "password": "very-secret"}


def test_secrets_of_extra_scrapes_are_moved_to_files_at_any_depth() -> None:
    extra = [
        {"job_name": "switches", "basic_auth": {"username": "u", "password": "hidden-1"}},
        {"job_name": "old", "bearer_token": "hidden-2"},
        {
            "job_name": "found",
            "tls_config": {"key": "hidden-3"},
            "http_sd_configs": [
                {"url": "https://a.site"},
                {"url": "https://b.site", "authorization": {"credentials": "hidden-4"}},
                {"oauth2": {"client_id": "c", "client_secret": "hidden-5", "tls_config": {"key": "hidden-6"}}},
            ],
        },
    ]
    jobs = {"node": {"config": {"basic_auth": {"username": "u", "password": "hidden-7"}}}}
    before = json.dumps(extra)
    plan = prometheus_plan({**SETTINGS, "scrape_extra": extra, "jobs": jobs})
    assert json.dumps(extra) == before
    assert "hidden" not in json.dumps({**plan, "secrets": {}})
    assert {text for text in plan["secrets"].values() if "hidden" in text} == {f"hidden-{n}" for n in range(1, 8)}
    assert not plan["confidential"]
    written = json.dumps({**plan, "secrets": {}})
    assert all(path in written for path, text in plan["secrets"].items() if "hidden" in text)


@pytest.mark.parametrize(
    "secret",
    [
        {"consul_sd_configs": [{"server": "c", "token": "hidden"}]},
        {"ec2_sd_configs": [{"access_key": "a", "secret_key": "hidden"}]},
        {"openstack_sd_configs": [{"password": "hidden"}]},
        {"azure_sd_configs": [{"client_secret": "hidden"}]},
        {"params": {"api_key": ["hidden"]}},
        {"http_headers": {"X-Token": {"secrets": ["hidden"]}}},
        {"http_sd_configs": [{"url": "https://user:hidden@inventory.site/targets"}]},
        {"proxy_url": "http://user:hidden@proxy:3128"},
    ],
)
def test_configuration_with_a_secret_is_readable_by_its_user_only(secret: dict[str, Any]) -> None:
    plan = prometheus_plan({**SETTINGS, "scrape_extra": [{"job_name": "x", **secret}]})
    assert plan["confidential"] is True


def test_configuration_without_secrets_stays_readable() -> None:
    extra = [
        {"job_name": "x", "basic_auth": {"username": "u", "password_file": "/etc/p"}, "params": {"module": ["http"]}},
        {"job_name": "token_bucket", "http_sd_configs": [{"url": "https://sd.site:8080/targets?a=b@c"}]},
    ]
    plan = prometheus_plan({**SETTINGS, "scrape_extra": extra})
    assert plan["confidential"] is False
