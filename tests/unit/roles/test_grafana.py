"""Tests of Grafana's files, parsed as Grafana does, and of refused options."""

from __future__ import annotations

import configparser
from typing import Any

import jsonschema
import pytest
import yaml
from role_files import named, rendered, value
from templates import TOP, worked_out

HOST = "gpu7"
DATASOURCE_UID = "busbar-prometheus"
PASSWORD = "n0t-A-placeholder-of-any-kind"  # noqa: S105 - a made-up one
SETTINGS: dict[str, Any] = {
    "source": "url",
    "version": "12.3.1",
    "package_url": "https://mirror.invalid/oss/grafana_12.3.1_linux_amd64.deb",
    "package_sha256": "ab" * 32,
    "repository_url": "",
    "repository_key_url": "",
    "repository_key_file": "",
    "repository_fingerprint": "",
    "address": "10.0.0.10",
    "port": 3000,
    "root_url": "",
    "tls": False,
    "tls_certificate": "/etc/busbar/tls/host.crt",
    "tls_key": "/etc/busbar/tls/host.key",
    "admin_user": "admin",
    "admin_password": PASSWORD,
    "prometheus_url": "http://10.0.0.10:9090",
    "prometheus_others": {},
    "prometheus_basic_auth": {},
    "ca_file": "",
    "prometheus_scrape_interval": "15s",
    "settings": {},
}
REPOSITORY = {
    "source": "repository",
    "repository_url": "https://mirror.invalid/grafana",
    "repository_key_url": "https://mirror.invalid/grafana/gpg.key",
    "repository_fingerprint": "0" * 40,
}
# Keys of the files in Grafana's documentation on provisioning; Grafana ignores unknown keys silently.
DATASOURCES = {
    "type": "object",
    "required": ["apiVersion", "datasources"],
    "additionalProperties": False,
    "properties": {
        "apiVersion": {"const": 1},
        "prune": {"type": "boolean"},
        "deleteDatasources": {"type": "array"},
        "datasources": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["name", "type", "access", "uid", "url"],
                "additionalProperties": False,
                "properties": {
                    "name": {"type": "string"},
                    "type": {"type": "string"},
                    "access": {"enum": ["proxy", "direct"]},
                    "orgId": {"type": "integer"},
                    "uid": {"type": "string", "pattern": "^[A-Za-z0-9_-]{1,40}$"},
                    "url": {"type": "string", "pattern": "^https?://"},
                    "user": {"type": "string"},
                    "database": {"type": "string"},
                    "basicAuth": {"type": "boolean"},
                    "basicAuthUser": {"type": "string"},
                    "withCredentials": {"type": "boolean"},
                    "isDefault": {"type": "boolean"},
                    "jsonData": {"type": "object"},
                    "secureJsonData": {"type": "object", "additionalProperties": {"type": "string"}},
                    "version": {"type": "integer"},
                    "editable": {"type": "boolean"},
                },
            },
        },
    },
}
PROVIDERS = {
    "type": "object",
    "required": ["apiVersion", "providers"],
    "additionalProperties": False,
    "properties": {
        "apiVersion": {"const": 1},
        "providers": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["name", "type", "options"],
                "additionalProperties": False,
                "properties": {
                    "name": {"type": "string"},
                    "orgId": {"type": "integer"},
                    "folder": {"type": "string"},
                    "folderUid": {"type": "string", "maxLength": 40},
                    "type": {"const": "file"},
                    "disableDeletion": {"type": "boolean"},
                    "allowUiUpdates": {"type": "boolean"},
                    "updateIntervalSeconds": {"type": "integer", "minimum": 10},
                    "options": {
                        "type": "object",
                        "required": ["path"],
                        "additionalProperties": False,
                        "properties": {"path": {"type": "string"}, "foldersFromFilesStructure": {"type": "boolean"}},
                    },
                },
            },
        },
    },
}


def options(change: dict[str, Any]) -> dict[str, Any]:
    """Return the options of the role, with its prefix."""
    return named("grafana", SETTINGS | change)


def text(path: str, **change: object) -> str:
    """Return a file below /etc/grafana."""
    return rendered("grafana", f"etc/grafana/{path}.j2", **options(change))


def config(**change: object) -> configparser.ConfigParser:
    """Return grafana.ini."""
    parser = configparser.ConfigParser(interpolation=None)
    parser.read_string(text("grafana.ini", **change))
    return parser


def datasources(**change: object) -> dict[str, Any]:
    """Return the provisioning of data sources."""
    return dict(yaml.safe_load(text("provisioning/datasources/busbar.yml", **change)))


TLS = {
    "tls": True,
    "prometheus_url": "https://10.0.0.10:9090",
    "ca_file": "/etc/busbar/tls/ca.crt",
    "prometheus_basic_auth": {"username": "busbar", "password": "of-prometheus"},
}


@pytest.mark.parametrize("change", [{}, TLS, {"datasources": [{"name": "A", "type": "alertmanager", "uid": "a"}]}])
def test_provisioning_has_only_documented_keys(change: dict[str, Any]) -> None:
    sources = datasources(**change)
    if change.get("datasources"):
        assert sources["datasources"].pop()["name"] == "A"
    jsonschema.validate(sources, DATASOURCES)
    assert [item["uid"] for item in sources["datasources"]] == [DATASOURCE_UID]
    providers = yaml.safe_load(text("provisioning/dashboards/busbar.yml", **change))
    jsonschema.validate(providers, PROVIDERS)
    assert providers["providers"][0]["allowUiUpdates"] is False
    assert providers["providers"][0]["options"]["path"] == "/etc/grafana/dashboards"


def test_tls_encrypts_all_connections_and_adds_a_password_and_a_ca() -> None:
    source = datasources(**TLS)["datasources"][0]
    assert source["basicAuth"] is True
    assert source["basicAuthUser"] == "busbar"
    assert source["jsonData"]["tlsAuthWithCACert"] is True
    assert source["secureJsonData"]["tlsCACert"] == "$__file{/etc/busbar/tls/ca.crt}"
    assert value("grafana", "__grafana_url", **options(TLS)) == "https://10.0.0.10:3000"
    server = config(**TLS)["server"]
    assert server["protocol"] == "https"
    assert server["cert_file"] == "/etc/busbar/tls/host.crt"
    assert config(**TLS)["security"]["cookie_secure"] == "true"


@pytest.mark.parametrize("change", [{}, TLS])
def test_files_whose_diff_is_shown_contain_no_password(change: dict[str, Any]) -> None:
    for path in ("grafana.ini", "provisioning/datasources/busbar.yml", "provisioning/dashboards/busbar.yml"):
        found = text(path, **change)
        assert PASSWORD not in found
        assert "of-prometheus" not in found


def test_anonymous_access_sign_up_and_reporting_are_disabled() -> None:
    found = config()
    assert found["server"]["http_addr"] == "10.0.0.10"
    assert found["security"]["admin_password"].startswith("$__file{")
    assert found["security"]["secret_key"].startswith("$__file{")
    closed = {
        "auth.anonymous": ["enabled"],
        "users": ["allow_sign_up", "allow_org_create"],
        "analytics": ["reporting_enabled", "check_for_updates", "check_for_plugin_updates"],
        "news": ["news_feed_enabled"],
        "snapshots": ["external_enabled"],
    }
    assert {found[section][key] for section, keys in closed.items() for key in keys} == {"false"}
    assert found["security"]["disable_gravatar"] == "true"


def test_site_configuration_extends_and_overrides_the_default() -> None:
    found = config(
        settings={"users": {"default_theme": "light"}, "news": {"news_feed_enabled": True}, "smtp": {"a": 1}}
    )
    assert found["users"]["default_theme"] == "light"
    assert found["users"]["allow_sign_up"] == "false"
    assert found["news"]["news_feed_enabled"] == "true"
    assert found["smtp"]["a"] == "1"


@pytest.mark.parametrize(("name", "option"), [("grafana.ini", "settings"), ("datasources/busbar.yml", "datasources")])
def test_diff_hides_additions_of_a_site(name: str, option: str) -> None:
    tasks = yaml.safe_load((TOP / "roles/grafana/tasks/grafana.yml").read_text(encoding="utf-8"))
    listed = [each for task in tasks for each in task.get("busbar.cluster.templates", {}).get("files", [])]
    (file,) = (each for each in listed if each["dest"].endswith(name))
    assert worked_out(file["hidden"], **{f"grafana_{option}": [{"secureJsonData": {"password": "x"}}]}) is True
    assert worked_out(file["hidden"], **{f"grafana_{option}": []}) is False


def test_name_of_a_folder_may_have_any_character() -> None:
    found = text("provisioning/dashboards/busbar.yml", folder="\U0001f4ca")
    assert yaml.safe_load(found)["providers"][0]["folder"] == "\U0001f4ca"


def test_ipv6_address_is_written_in_brackets() -> None:
    assert value("grafana", "__grafana_url", **options({"address": "fd00::10"})) == "http://[fd00::10]:3000"


REFUSED: list[tuple[dict[str, Any], list[str]]] = [
    ({}, []),
    ({"package_sha256": ""}, ["package_sha256"]),
    ({"package_sha256": "12ab"}, ["package_sha256"]),
    ({"package_url": ""}, ["package_url"]),
    ({"package_url": "https://mirror.invalid/"}, ["package_url"]),
    ({"version": ""}, ["version"]),
    (REPOSITORY, []),
    (REPOSITORY | {"repository_fingerprint": ""}, ["repository_fingerprint"]),
    (REPOSITORY | {"repository_url": "", "repository_key_url": ""}, ["repository_url", "repository_key_url"]),
    (REPOSITORY | {"repository_key_url": "", "repository_key_file": "/srv/grafana.asc"}, []),
    ({"address": "0.0.0.0"}, ["address"]),  # noqa: S104 - refused
    ({"address": ""}, ["address"]),
    ({"address": "::"}, ["address"]),
    ({"admin_password": "admin"}, ["admin_password"]),
    ({"admin_password": ""}, ["admin_password"]),
    ({"admin_password": "CHANGEME-CHANGEME"}, ["admin_password"]),
    ({"admin_password": "<your password here>"}, ["admin_password"]),
    ({"admin_password": "xxxxxxxxxxxxxxxx"}, ["admin_password"]),
    ({"admin_user": "a b"}, ["admin_user"]),
    ({"prometheus_url": "10.0.0.10:9090"}, ["prometheus_url"]),
    ({"settings": {"smtp": "yes"}}, ["settings"]),
    ({"settings": {"smtp": {"password": "a\nb"}}}, ["settings"]),
    ({"source": "none", "admin_password": "", "package_sha256": ""}, []),
]


@pytest.mark.parametrize(("change", "keys"), REFUSED)
def test_invalid_input_is_refused(change: dict[str, Any], keys: list[str]) -> None:
    problems = value("grafana", "__grafana_problems", **options(change))
    assert [item["key"] for item in problems] == [f"grafana_{key}" for key in keys]
    for item in problems:
        assert item["hosts"] == [HOST]
        assert item["remedy"]
        password = change.get("admin_password")
        assert not password or password not in item["problem"]


def test_prometheus_of_another_host_is_a_data_source_with_the_same_credentials() -> None:
    others = {"mon2": "https://10.0.0.11:9090"}
    ours, other = datasources(**TLS, prometheus_others=others)["datasources"]
    assert (ours["isDefault"], other["isDefault"]) == (True, False)
    assert (other["name"], other["uid"], other["url"]) == (
        "Prometheus on mon2",
        f"{DATASOURCE_UID}-mon2",
        "https://10.0.0.11:9090",
    )
    assert other["secureJsonData"] == ours["secureJsonData"]
