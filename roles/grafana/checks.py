"""Checks the options of the grafana role."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from ...plugins.plugin_utils.role_checks import Known, Problem, make_problem

if TYPE_CHECKING:
    from collections.abc import Iterator


SHORTEST_PASSWORD = 12
EVERYWHERE = ("", "0.0.0.0", "::", "[::]", "*")  # noqa: S104 - refused
_PLACEHOLDER = re.compile(r"(?i)^(admin|grafana|password|passwort|secret|prom-operator)\d*$|change.?me|<[^>]*>|^x+$")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_NAME = re.compile(r"[A-Za-z0-9._@-]+")
# Valid values in place of templates that the preflight cannot evaluate.
_IF_UNKNOWN = {"address": "127.0.0.1", "admin_password": "-" * 32, "prometheus_url": "http://x"}


def check(options: Known, cluster: Known) -> list[Problem]:
    """Return the invalid options of the role, given without its prefix; none if Grafana is not installed."""
    options = {**_IF_UNKNOWN, **options}
    return list(_problems(options, cluster.get("host", ""))) if options["source"] != "none" else []


def _problems(options: Known, host: str) -> Iterator[Problem]:
    def problem(key: str, what: str, remedy: str) -> Problem:
        return make_problem([host], f"grafana_{key}", what, remedy)

    if options["source"] == "url":
        yield from _package_problems(options, problem)
    if options["source"] == "repository":
        yield from _repository_problems(options, problem)
    if str(options["address"]).strip() in EVERYWHERE:
        yield problem(
            "address",
            f"with {options['address']!r}, Grafana listens on every network of the host",
            "set the host's address in the cluster network; use a reverse proxy for other networks",
        )
    password = str(options["admin_password"])
    if len(password) < SHORTEST_PASSWORD or _PLACEHOLDER.search(password):
        yield problem(
            "admin_password",
            f"the password is a placeholder or has fewer than {SHORTEST_PASSWORD} characters",
            "remove it, so that busbar generates a password, or set a longer password from a vault",
        )
    if not _NAME.fullmatch(str(options["admin_user"])):
        yield problem(
            "admin_user", f"{options['admin_user']!r} is not a valid login name", "use letters, digits, . _ @ and -"
        )
    if urlsplit(str(options["prometheus_url"])).scheme not in {"http", "https"}:
        yield problem(
            "prometheus_url",
            f"{options['prometheus_url']!r} is not an HTTP URL",
            "use a URL such as http://10.0.0.10:9090",
        )
    yield from _setting_problems(options["settings"], problem)


def _setting_problems(sections: Known, problem: Any) -> Iterator[Problem]:  # noqa: ANN401 - a function
    for section, values in sections.items():
        if not hasattr(values, "items"):
            yield problem("settings", f"{section} is not a mapping of keys", "write it as {section: {key: value}}")
            continue
        for key, value in values.items():
            if any(sign in f"{section}{key}{value}" for sign in "\n\r"):
                yield problem("settings", f"{section}.{key} has several lines", "write it on one line")


def _package_problems(options: Known, problem: Any) -> Iterator[Problem]:  # noqa: ANN401 - a function
    url, found = str(options["package_url"]), str(options["package_sha256"]).lower()
    if not url.endswith((".deb", ".rpm")) or "/" not in url:
        yield problem(
            "package_url",
            f"{url!r} is not a package URL",
            "set the full URL of the .deb or .rpm for the host's architecture, on a mirror or at the vendor",
        )
    if not _SHA256.fullmatch(found):
        yield problem(
            "package_sha256",
            "a package URL requires its SHA-256 (64 hexadecimal digits)" + (f", not {found!r}" if found else ""),
            "copy it from the vendor's release page, not from the mirror",
        )
    if not options["version"]:
        yield problem(
            "version",
            "a package URL requires its version",
            "set the version of the package, such as 12.3.1",
        )


def _repository_problems(options: Known, problem: Any) -> Iterator[Problem]:  # noqa: ANN401 - a function
    if not options["repository_url"]:
        yield problem(
            "repository_url",
            "the URL of the repository is missing",
            "set the URL of the vendor or of the site's mirror",
        )
    if not options["repository_fingerprint"]:
        yield problem(
            "repository_fingerprint",
            "the fingerprint of the repository's key is missing",
            "copy it from the vendor, not from the mirror (40 hexadecimal digits)",
        )
    if not options["repository_key_url"] and not options["repository_key_file"]:
        yield problem(
            "repository_key_url",
            "the key of the repository is missing",
            "set its URL, or grafana_repository_key_file to a file on the provisioning host",
        )
