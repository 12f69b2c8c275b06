"""Grafana's settings, data sources and dashboard folders as a site declares them, and what is wrong with them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import yaml

from ...module_utils.common.problems import make_problem
from ..common.untagged import untagged

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ...module_utils.common.problems import Problem

__all__ = ["DATASOURCE_UID", "grafana_plan", "grafana_problems"]

# The dashboards' variable has it as its default.
DATASOURCE_UID = "busbar-prometheus"
ADMIN_PASSWORD = "/etc/grafana/busbar_admin_password"  # noqa: S105 - a path
SECRET_KEY = "/etc/grafana/busbar_secret_key"  # noqa: S105 - a path
PROMETHEUS_PASSWORD = "/etc/grafana/busbar_prometheus_password"  # noqa: S105 - a path
SHORTEST_PASSWORD = 12
EVERYWHERE = ("", "0.0.0.0", "::", "[::]", "*")  # noqa: S104 - refused
_PLACEHOLDER = re.compile(r"(?i)^(admin|grafana|password|passwort|secret|prom-operator)\d*$|change.?me|<[^>]*>|^x+$")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_NAME = re.compile(r"[A-Za-z0-9._@-]+")


def grafana_plan(settings: Mapping[str, Any], host: str) -> dict[str, Any]:
    """Return what a host's Grafana gets.

    Args:
        settings: the options of the role `grafana` without its name.
        host: the host's name, for messages.

    Returns:
        `problems`; `config` (grafana.ini), `datasources` and `provider` (YAML of its provisioning), `package`
        (as package_files takes it, with `source`; only with a package by address), and `url`.
    """
    scheme = "https" if settings["tls"] else "http"
    address = str(settings["address"])
    literal = f"[{address}]" if ":" in address else address
    source, _, file = str(settings["package_url"]).rpartition("/")
    package = {"name": settings["package"], "version": str(settings["version"]), "file": file}
    return {
        "problems": grafana_problems(settings, host),
        "config": _ini(_sections(settings, scheme)),
        "datasources": _yaml({"apiVersion": 1, "prune": True, "datasources": _datasources(settings)}),
        "provider": _yaml({"apiVersion": 1, "providers": [_provider(settings)]}),
        "package": {"source": source, "packages": [{**package, "sha256": str(settings["package_sha256"]).lower()}]},
        "url": f"{scheme}://{literal}:{settings['port']}",
    }


def grafana_problems(settings: Mapping[str, Any], host: str) -> list[Problem]:
    """Return what is wrong with the options of the role `grafana`; nothing where no Grafana is to be installed."""
    return list(_problems(settings, host)) if settings["source"] != "none" else []


def _problems(settings: Mapping[str, Any], host: str) -> Iterator[Problem]:
    def problem(key: str, what: str, remedy: str) -> Problem:
        return make_problem([host], f"grafana_{key}", what, remedy)

    if settings["source"] == "url":
        yield from _package_problems(settings, problem)
    if settings["source"] == "repository":
        yield from _repository_problems(settings, problem)
    if str(settings["address"]).strip() in EVERYWHERE:
        yield problem(
            "address",
            f"{settings['address']!r} listens on every network of the host",
            "name the host's address in the cluster's network; a reverse proxy serves others",
        )
    password = str(settings["admin_password"])
    if len(password) < SHORTEST_PASSWORD or _PLACEHOLDER.search(password):
        yield problem(
            "admin_password",
            f"the password is a placeholder or has fewer than {SHORTEST_PASSWORD} characters",
            "leave it out, so that one is made at random, or give a long one from a vault",
        )
    if not _NAME.fullmatch(str(settings["admin_user"])):
        yield problem("admin_user", f"{settings['admin_user']!r} is no login", "use letters, digits, . _ @ and -")
    if urlsplit(str(settings["prometheus_url"])).scheme not in {"http", "https"}:
        yield problem(
            "prometheus_url",
            f"{settings['prometheus_url']!r} is no address that Grafana can ask",
            "give one such as http://10.0.0.10:9090",
        )
    yield from _setting_problems(settings["settings"], problem)


def _setting_problems(sections: Mapping[str, Any], problem: Any) -> Iterator[Problem]:  # noqa: ANN401 - a function
    for section, values in sections.items():
        if not hasattr(values, "items"):
            yield problem("settings", f"{section} is no section", "write it as {section: {key: value}}")
            continue
        for key, value in values.items():
            if any(sign in f"{section}{key}{value}" for sign in "\n\r"):
                yield problem("settings", f"{section}.{key} has several lines", "grafana.ini has one line for each")


def _package_problems(settings: Mapping[str, Any], problem: Any) -> Iterator[Problem]:  # noqa: ANN401 - a function
    url, found = str(settings["package_url"]), str(settings["package_sha256"]).lower()
    if not url.endswith((".deb", ".rpm")) or "/" not in url:
        yield problem(
            "package_url",
            f"{url!r} is no address of a package",
            "give the whole address of the .deb or .rpm for the host's architecture, on a mirror or with the vendor",
        )
    if not _SHA256.fullmatch(found):
        yield problem(
            "package_sha256",
            "a package by its address needs its SHA-256, 64 hexadecimal digits" + (f", not {found!r}" if found else ""),
            "take it from the vendor's page of that release, not from the mirror",
        )
    if not settings["version"]:
        yield problem(
            "version",
            "a package by its address needs its version",
            "give it as the package database tells it, such as 12.3.1; another one is then installed anew",
        )


def _repository_problems(settings: Mapping[str, Any], problem: Any) -> Iterator[Problem]:  # noqa: ANN401 - a function
    if not settings["repository_url"]:
        yield problem(
            "repository_url", "there is no address of a repository", "give that of the vendor, or of the site's mirror"
        )
    if not settings["repository_fingerprint"]:
        yield problem(
            "repository_fingerprint",
            "there is no fingerprint of the key that signs the repository",
            "take it from the vendor, not from the mirror: 40 hexadecimal digits",
        )
    if not settings["repository_key_url"] and not settings["repository_key_file"]:
        yield problem(
            "repository_key_url",
            "there is no key of the repository",
            "give its address, or a file on the provisioning host as grafana_repository_key_file",
        )


def _sections(settings: Mapping[str, Any], scheme: str) -> dict[str, dict[str, Any]]:
    """Return grafana.ini: ours, and over it what the site says."""
    server = {"protocol": scheme, "http_addr": settings["address"], "http_port": settings["port"]}
    server |= {"root_url": settings["root_url"]} if settings["root_url"] else {}
    if settings["tls"]:
        server |= {"cert_file": settings["tls_certificate"], "cert_key": settings["tls_key"]}
        server |= {"min_tls_version": "TLS1.2", "certs_watch_interval": "5m"}
    made: dict[str, dict[str, Any]] = {
        "server": server,
        "security": {
            "admin_user": settings["admin_user"],
            "admin_password": f"$__file{{{ADMIN_PASSWORD}}}",
            # With the one that all installations share, whoever has the database has the passwords in it.
            "secret_key": f"$__file{{{SECRET_KEY}}}",
            "disable_gravatar": True,
            "cookie_secure": bool(settings["tls"]),
            "cookie_samesite": "strict",
            "strict_transport_security": bool(settings["tls"]),
            "content_security_policy": True,
        },
        "users": {"allow_sign_up": False, "allow_org_create": False, "auto_assign_org_role": "Viewer"},
        "auth.anonymous": {"enabled": False},
        "dashboards": {"default_home_dashboard_path": f"{settings['dashboards_dir']}/overview.json"},
        "analytics": {
            "reporting_enabled": False,
            "check_for_updates": False,
            "check_for_plugin_updates": False,
            "feedback_links_enabled": False,
        },
        "news": {"news_feed_enabled": False},
        "snapshots": {"external_enabled": False},
        "public_dashboards": {"enabled": False},
        "plugins": {"preinstall_disabled": True, "public_key_retrieval_disabled": True},
        "metrics": {"enabled": True},
        "log": {"mode": "console"},
    }
    for section, values in settings["settings"].items():
        if hasattr(values, "items"):
            made.setdefault(str(section), {}).update({str(key): value for key, value in values.items()})
    return made


def _ini(sections: Mapping[str, Mapping[str, Any]]) -> str:
    def word(value: object) -> str:
        return str(value).lower() if isinstance(value, bool) else str(value)

    lines = ["# Managed by Ansible: what is not said here is Grafana's default."]
    for section, values in sections.items():
        lines += ["", f"[{section}]", *(f"{key} = {word(value)}" for key, value in values.items())]
    return "\n".join(lines) + "\n"


def _datasources(settings: Mapping[str, Any]) -> list[dict[str, Any]]:
    ours: dict[str, Any] = {
        "name": "Prometheus",
        "uid": DATASOURCE_UID,
        "type": "prometheus",
        "access": "proxy",
        "orgId": 1,
        "url": str(settings["prometheus_url"]),
        "isDefault": True,
        "editable": False,
        # As often as Prometheus scrapes: the shortest step of a graph, and the base of $__rate_interval.
        "jsonData": {
            "httpMethod": "POST",
            "prometheusType": "Prometheus",
            "timeInterval": str(settings["scrape_interval"]),
        },
    }
    secret: dict[str, str] = {}
    if settings["prometheus_ca_file"]:
        ours["jsonData"]["tlsAuthWithCACert"] = True
        secret["tlsCACert"] = f"$__file{{{settings['prometheus_ca_file']}}}"
    access = settings["prometheus_basic_auth"]
    if access:
        ours |= {"basicAuth": True, "basicAuthUser": str(access["username"])}
        secret["basicAuthPassword"] = f"$__file{{{PROMETHEUS_PASSWORD}}}"
    ours |= {"secureJsonData": secret} if secret else {}
    # A Prometheus that has died, or was away for a while, leaves a gap that the other one of a pair does not have.
    others = [
        {**ours, "name": f"Prometheus on {name}", "uid": f"{DATASOURCE_UID}-{name}", "url": url, "isDefault": False}
        for name, url in settings["prometheus_others"].items()
    ]
    return [ours, *others, *untagged(settings["datasources"])]


def _provider(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "name": "busbar",
        "orgId": 1,
        "folder": str(settings["folder"]),
        "folderUid": "busbar",
        "type": "file",
        "disableDeletion": False,
        "allowUiUpdates": False,
        "updateIntervalSeconds": 30,
        "options": {"path": str(settings["dashboards_dir"]), "foldersFromFilesStructure": False},
    }


def _yaml(data: dict[str, Any]) -> str:
    text = yaml.safe_dump(untagged(data), sort_keys=False, allow_unicode=True, width=120)
    return f"---\n# Managed by Ansible.\n{text}"
