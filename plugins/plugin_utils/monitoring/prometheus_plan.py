"""Check the options of the prometheus role, and move their passwords to files."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from ...module_utils.common.problems import make_problem
from ..common.program_source import argument_problems, source_problems
from .alert_rules import alert_problems, alert_rules

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ...module_utils.common.problems import Problem


SECRETS = "/etc/prometheus/secrets"

# Units and their order: Prometheus documentation, "Configuration", <duration>, with its regular expression.
_DURATION = re.compile(r"(?:(\d+)y)?(?:(\d+)w)?(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?(?:(\d+)ms)?")
_UNITS_S = (31536000.0, 604800.0, 86400.0, 3600.0, 60.0, 1.0, 0.001)
# Powers of two: Prometheus' documentation, "Storage", --storage.tsdb.retention.size.
_SIZE = re.compile(r"(\d+)([KMGTPE]?B)")
_POWERS = {"B": 0, "KB": 1, "MB": 2, "GB": 3, "TB": 4, "PB": 5, "EB": 6}
# Inline secrets in Prometheus's schema, and the keys that name a file instead.
_SECRET_KEYS = {
    ("basic_auth", "password"): "password_file",
    ("authorization", "credentials"): "credentials_file",
    ("oauth2", "client_secret"): "client_secret_file",
    ("tls_config", "key"): "key_file",
}
# Secrets that Prometheus cannot read from a file, for example for service discovery. With them, the configuration is
# readable only by its owner.
_SECRET_NAME = re.compile(
    r"(?i)(?:^|[_-])(?:pass|passwd|password|secrets?|secret_key|token|api_?key|key|credentials?)$"
)
_SECRET_URL = re.compile(r"://[^/?#\s@]*:[^/?#\s@]+@")
_PLACEHOLDER = re.compile(r"(?i)changeme|\bexample\.(com|org|net)\b|<[^>]*>")


def duration_seconds(text: str) -> float:
    """Return a Prometheus duration, such as 30d, 1h30m or 15s, in seconds.

    Raises:
        ValueError: if the text is not a duration.
    """
    found = _DURATION.fullmatch(str(text))
    if not found or not any(found.groups()):
        message = f"{text!r} is not a duration such as 15s, 90d or 1y6w"
        raise ValueError(message)
    return sum(int(number) * unit for number, unit in zip(found.groups(), _UNITS_S, strict=True) if number)


def size_bytes(text: str) -> int:
    """Return a Prometheus size, such as 200GB, in bytes; its units are powers of two.

    Raises:
        ValueError: if the text is not a size.
    """
    found = _SIZE.fullmatch(str(text))
    if not found:
        message = f"{text!r} is not a size such as 512MB or 200GB"
        raise ValueError(message)
    return int(found[1]) << (10 * _POWERS[found[2]])


def prometheus_problems(settings: Mapping[str, Any], host: str) -> list[Problem]:
    """Return the problems with the role's options that do not depend on facts of the host.

    Args:
        settings: the role's options without prefix; missing ones have their defaults.
        host: name for the messages.
    """
    problems = []
    for key, example in (("retention_time", "30d"), ("scrape_interval", "15s"), ("evaluation_interval", "15s")):
        value = str(settings.get(key) or ("" if key == "retention_time" else example))
        try:
            seconds = duration_seconds(value) if value else 1.0
        except ValueError as exc:
            problems.append(make_problem([host], f"prometheus_{key}", str(exc), f"use a duration such as {example}"))
            continue
        if seconds <= 0:
            remedy = f"use a longer duration such as {example}"
            problems.append(make_problem([host], f"prometheus_{key}", f"{value!r} is not greater than zero", remedy))
    size = str(settings.get("retention_size") or "")
    try:
        if size and size_bytes(size) == 0:
            remedy = "use a size such as 200GB, or '' for no limit"
            problems.append(make_problem([host], "prometheus_retention_size", f"{size!r} would keep no data", remedy))
    except ValueError as exc:
        remedy = "use an integer with the unit B, KB, MB, GB, TB, PB or EB, such as 200GB; '' for no limit"
        problems.append(make_problem([host], "prometheus_retention_size", str(exc), remedy))
    return problems + _rules_problems(settings, host) + _remote_problems(settings, host)


def host_problems(settings: Mapping[str, Any], host: str) -> list[Problem]:
    """Return the problems with a host's options; `settings` must contain all keys of the prometheus_plan filter."""
    problems = source_problems("prometheus", settings, host) + prometheus_problems(settings, host)
    return problems + argument_problems("prometheus", settings["arguments"], host)


def prometheus_plan(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the declared parts of prometheus.yml, with passwords moved to files.

    Args:
        settings: `jobs`, `scrape_access`, `scrape_extra`, `alertmanager_access` and `remote_write` of the role.

    Returns:
        The same keys; `secrets`, the content of each secret file by path; and `confidential`, whether the result still
        contains secrets that Prometheus cannot read from a file.
    """
    secrets: dict[str, str] = {}
    jobs = {
        name: {key: job[key] for key in ("secured", "config") if key in job} for name, job in settings["jobs"].items()
    }
    parts: dict[str, Any] = {
        "jobs": {name: _secrets_to_files(job, f"job_{name}_0", secrets) for name, job in jobs.items()}
    }
    for name in ("scrape_access", "alertmanager_access"):
        parts[name] = _secrets_to_files(settings[name], f"{name}_0", secrets)
    for name in ("scrape_extra", "remote_write"):
        parts[name] = [_secrets_to_files(each, f"{name}_{n}", secrets) for n, each in enumerate(settings[name] or [])]
    return {**parts, "secrets": secrets, "confidential": _has_secret(parts)}


def _secrets_to_files(entry: Mapping[str, Any], name: str, secrets: dict[str, str]) -> dict[str, Any]:
    """Return an entry with all its secrets moved to files whose names begin with `name`."""
    kept = {key: dict(value) if isinstance(value, dict) else value for key, value in entry.items()}
    for (part, key), instead in _SECRET_KEYS.items():
        block = kept.get(part)
        if isinstance(block, dict) and key in block:
            path = f"{SECRETS}/{name}_{key}"
            secrets[path] = str(block.pop(key))
            block[instead] = path
    if "bearer_token" in kept:
        path = f"{SECRETS}/{name}_bearer_token"
        secrets[path] = str(kept.pop("bearer_token"))
        kept["authorization"] = {"type": "Bearer", "credentials_file": path}
    for key, value in kept.items():
        below = f"{name}_{re.sub(r'[^A-Za-z0-9_]', '_', str(key))}"
        if isinstance(value, dict):
            kept[key] = _secrets_to_files(value, below, secrets)
        elif isinstance(value, list):
            kept[key] = [
                _secrets_to_files(each, f"{below}_{number}", secrets) if isinstance(each, dict) else each
                for number, each in enumerate(value)
            ]
    return kept


def _has_secret(value: object, name: str = "") -> bool:
    """Return whether a configuration contains a secret, detected by key name or a password in a URL."""
    if isinstance(value, dict):
        return any(_has_secret(each, str(key)) for key, each in value.items())
    if isinstance(value, list):
        return any(_has_secret(each, name) for each in value)
    return isinstance(value, str) and bool(value and (_SECRET_NAME.search(name) or _SECRET_URL.search(value)))


def _remote_problems(settings: Mapping[str, Any], host: str) -> list[Problem]:
    problems = []
    for number, entry in enumerate(settings.get("remote_write") or []):
        key = f"prometheus_remote_write[{number}]"
        url = str(entry.get("url") or "") if isinstance(entry, dict) else ""
        if not url.startswith(("http://", "https://")):
            remedy = "use a URL such as https://metrics.site/api/v1/write"
            problems.append(make_problem([host], key, f"url {url!r} is not an http:// or https:// URL", remedy))
        elif _PLACEHOLDER.search(url):
            remedy = "set the real URL, or remove the entry"
            problems.append(make_problem([host], key, f"url {url} is a placeholder", remedy))
        if isinstance(entry, dict) and "secret_key" in (entry.get("sigv4") or {}):
            remedy = "set sigv4.profile to a profile in the credentials file of the user prometheus"
            problems.append(
                make_problem([host], key, "sigv4.secret_key would be readable in the configuration", remedy)
            )
    return problems


def _rules_problems(settings: Mapping[str, Any], host: str) -> list[Problem]:
    problems = []
    for name, groups in (settings.get("rules") or {}).items():
        key = f"prometheus_rules.{name}"
        if not re.fullmatch(r"[a-z0-9_]+", str(name)):
            remedy = "use lower-case letters, digits and _"
            problems.append(make_problem([host], "prometheus_rules", f"{name!r} is not a file name", remedy))
        elif not isinstance(groups, list) or not all(isinstance(each, dict) and "name" in each for each in groups):
            remedy = "write a list of Prometheus rule groups, each with name and rules"
            problems.append(make_problem([host], key, "is not a list of rule groups", remedy))
    return problems


FOLDER = "/etc/prometheus/rules"


def shipped_rules(folder: str) -> dict[str, str]:
    """Return the text of each rule file in a folder, by name."""
    return {path.stem: path.read_text(encoding="utf-8") for path in sorted(Path(folder).glob("*.yml"))}


def shipped_alert_problems(
    folder: str, site: Mapping[str, list[Any]], overrides: Mapping[str, Any], host: str
) -> list[Problem]:
    """Return the problems with a site's alert overrides; rules are read only if there are overrides."""
    return alert_problems(rules_of(shipped_rules(folder), site), overrides, host) if overrides else []


def rules_of(shipped: Mapping[str, str], site: Mapping[str, list[Any]]) -> dict[str, Any]:
    """Return the content of the rule files by name; a file of the site replaces busbar's file of the same name."""
    parsed = {name: yaml.safe_load(text) for name, text in shipped.items() if name not in site}
    return parsed | {name: {"groups": groups} for name, groups in site.items()}


def rule_files(
    shipped: Mapping[str, str], site: Mapping[str, list[Any]], alerts: Mapping[str, Any] | None = None
) -> list[dict[str, str]]:
    """Return the files, each with `path` and `content`.

    Args:
        shipped: busbar's rule files by name; a file is rewritten only if `alerts` overrides one of its alerts.
        site: rule groups of the site by file name; they replace busbar's file of the same name.
        alerts: the site's alert overrides.
    """
    texts = {
        **shipped,
        **{
            str(name): _text(groups, "Rules of this site, declared in prometheus_rules.")
            for name, groups in site.items()
        },
    }
    before = rules_of(shipped, site) if alerts else {}
    for name, content in alert_rules(before, alerts or {}).items():
        if content != before[name]:
            texts[name] = _text(content["groups"], "With the overrides of this site, declared in prometheus_alerts.")
    return [{"path": f"{FOLDER}/busbar_{name}.yml", "content": text} for name, text in sorted(texts.items())]


def _text(groups: list[Any], comment: str) -> str:
    body = yaml.safe_dump({"groups": groups}, sort_keys=False, width=120, allow_unicode=True)
    return f"# {comment}\n{body}"
