"""Options of the portal that are refused before anything is changed."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.busbar.cluster.roles.jupyterhub.checks import check

OIDC = {
    "client_id": "portal",
    "client_secret": 32,
    "callback_url": "https://login:8000/hub/oauth_callback",
    **{f"{name}_url": f"https://id.example.org/{name}" for name in ("authorize", "token", "userdata")},
    "username_claim": "preferred_username",
}
IMAGE = {"name": "torch", "title": "PyTorch", "image": "nvcr.io#nvidia/pytorch:25.10-py3"}
GOOD: dict[str, Any] = {
    "container_binds": ["/shared"],
    "container_lacking": [],
    "container_runtime": "",
    "environments": [{"name": "default", "title": "Python", "modules": ["cuda/12.8"], "paths": ["/shared/env/bin"]}],
    "first_number": 1000,
    "grafana_url": "https://grafana.example.org:3000/base",
    "history_days": 3,
    "hours": 2.0,
    "idle_minutes": 60,
    "listen_address": "0.0.0.0",  # noqa: S104 - an option of the site
    "max_hours": 12.0,
    "queue_minutes": 10,
    "report_url": "",
    "oidc": {
        "client_id": "",
        "client_secret": 0,
        "authorize_url": "",
        "token_url": "",
        "userdata_url": "",
        "callback_url": "https://login:8000/hub/oauth_callback",
        "username_claim": "preferred_username",
    },
    "notebook_path": "/shared/software/jupyter",
    "notebook_ports": "61000-61999",
    "ports": {"port": 8000, "hub_port": 8081, "proxy_port": 8011, "proxy_api_port": 8012},
    "tls": True,
    "portals": ["login"],
    "submitting": ["login", "ctl"],
}


@pytest.mark.parametrize("runtime", ["pyxis", "charliecloud"])
def test_image_with_a_container_runtime_is_accepted(runtime: str) -> None:
    environments = [*GOOD["environments"], IMAGE | {"python": "/opt/conda/bin/python3", "modules": [], "paths": []}]
    assert check(GOOD | {"environments": environments, "container_runtime": runtime}, {"host": "login"}) == []


def test_defaults_are_valid() -> None:
    assert check(GOOD | {"oidc": OIDC}, {"host": "login"}) == []
    assert check(GOOD, {"host": "login"}) == []


@pytest.mark.parametrize(
    ("change", "key"),
    [
        ({"tls": False}, "tls_enabled"),
        ({"portals": ["ctl", "login"]}, "portal"),
        ({"portals": ["web"]}, "portal"),
        ({"notebook_path": ""}, "jupyterhub_notebook_path"),
        ({"listen_address": "all"}, "jupyterhub_listen_address"),
        ({"first_number": 0}, "jupyterhub_first_number"),
        ({"hours": 13.0}, "jupyterhub_hours"),
        ({"hours": 0.0}, "jupyterhub_hours"),
        ({"max_hours": 1000.0}, "jupyterhub_max_hours"),
        ({"queue_minutes": 0}, "jupyterhub_queue_minutes"),
        ({"environments": [IMAGE]}, "jupyterhub_environments"),
        (
            {"environments": [IMAGE], "container_runtime": "pyxis", "container_lacking": list("abcdef")},
            "jupyterhub_container_runtime",
        ),
        (
            {"environments": [IMAGE], "container_runtime": "charliecloud", "container_binds": ["/share"]},
            "charliecloud_binds",
        ),
        ({"environments": [IMAGE | {"image": "x $(id)"}], "container_runtime": "pyxis"}, "jupyterhub_environments"),
        ({"environments": [IMAGE | {"modules": ["cuda"]}], "container_runtime": "pyxis"}, "jupyterhub_environments"),
        ({"environments": [IMAGE | {"python": "python2"}], "container_runtime": "pyxis"}, "jupyterhub_environments"),
        ({"oidc": OIDC | {"token_url": "http://id.example.org/token"}}, "jupyterhub_oidc_token_url"),
        ({"oidc": OIDC | {"userdata_url": ""}}, "jupyterhub_oidc_userdata_url"),
        ({"oidc": OIDC | {"client_secret": 0}}, "jupyterhub_oidc_client_secret"),
        ({"oidc": OIDC | {"username_claim": ""}}, "jupyterhub_oidc_username_claim"),
        ({"oidc": GOOD["oidc"] | {"token_url": "https://id.example.org/token"}}, "jupyterhub_oidc_token_url"),
        ({"grafana_url": "javascript:alert(1)"}, "jupyterhub_grafana_url"),
        ({"report_url": "https://x/ onclick"}, "jupyterhub_report_url"),
        ({"history_days": 0}, "jupyterhub_history_days"),
        ({"idle_minutes": -1}, "jupyterhub_idle_minutes"),
        ({"ports": GOOD["ports"] | {"hub_port": 8000}}, "jupyterhub_hub_port"),
        ({"ports": GOOD["ports"] | {"port": 70000}}, "jupyterhub_port"),
        ({"notebook_ports": "61000"}, "jupyterhub_notebook_ports"),
        ({"notebook_ports": "61999-61000"}, "jupyterhub_notebook_ports"),
        ({"notebook_ports": "22-80"}, "jupyterhub_notebook_ports"),
        ({"environments": []}, "jupyterhub_environments"),
        ({"environments": GOOD["environments"] * 2}, "jupyterhub_environments"),
        ({"environments": [{"name": "a b", "title": ""}]}, "jupyterhub_environments"),
        ({"environments": [{"name": "a", "title": "", "modules": ["-x"]}]}, "jupyterhub_environments"),
        ({"environments": [{"name": "a", "title": "", "paths": ["bin"]}]}, "jupyterhub_environments"),
    ],
)
def test_invalid_options_are_reported(change: dict[str, Any], key: str) -> None:
    problems = check(GOOD | change, {"host": "login"})
    assert [(one["hosts"], one["key"]) for one in problems] == [(["login"], key)]
    assert problems[0]["remedy"]
