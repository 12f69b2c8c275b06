"""Prometheus rule files: those shipped with busbar and those of the site."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from .alert_rules import alert_problems, alert_rules

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ...module_utils.common.problems import Problem

__all__ = ["rule_files", "rules_of", "shipped_alert_problems", "shipped_rules"]

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
    """Return the content of the rule files by name; a file of the site replaces a shipped one."""
    parsed = {name: yaml.safe_load(text) for name, text in shipped.items() if name not in site}
    return parsed | {name: {"groups": groups} for name, groups in site.items()}


def rule_files(
    shipped: Mapping[str, str], site: Mapping[str, list[Any]], alerts: Mapping[str, Any] | None = None
) -> list[dict[str, str]]:
    """Return the files, each with `path` and `content`.

    Args:
        shipped: text by name; unchanged unless `alerts` overrides one of its alerts.
        site: groups in Prometheus's schema, by name; they replace a shipped file of the same name.
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
            texts[name] = _text(content["groups"], "With this site's changes to alerts, declared in prometheus_alerts.")
    return [{"path": f"{FOLDER}/busbar_{name}.yml", "content": text} for name, text in sorted(texts.items())]


def _text(groups: list[Any], comment: str) -> str:
    body = yaml.safe_dump({"groups": groups}, sort_keys=False, width=120, allow_unicode=True)
    return f"# {comment}\n{body}"
