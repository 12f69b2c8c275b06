"""Generates the page of all alerts from Prometheus' rule files."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import yaml

if TYPE_CHECKING:
    from pathlib import Path

HEAD = """\
# Alerts

The alert rules of the role [prometheus](../roles/prometheus/README.md), with their meaning and runbook. This page is
generated from the rules in [roles/prometheus/files/rules](../roles/prometheus/files/rules).

Words in capitals are labels of the alert: `NODE` is the node, `VALUE` the measured value. Notifications contain the
real names, so their commands can be copied. *After* is the time for which the condition must hold before the alert
fires. Override a *threshold* by the name of the alert:

```yaml
prometheus_alerts: {FilesystemFull: {threshold: 0.02, for: 30m}}
```
"""
TOPICS = {
    "alerts_gpu": "GPUs",
    "alerts_host": "Hosts",
    "alerts_network": "Network and InfiniBand",
    "alerts_storage": "Storage",
    "alerts_slurm": "Slurm",
    "alerts_health": "Health of nodes",
    "alerts_job": "Jobs",
    "alerts_validation": "Validation",
    "alerts_accounts": "Accounts",
    "alerts_backup": "Backups",
    "alerts_monitoring": "Monitoring itself",
}


def shown(text: str) -> str:
    """Return a Prometheus text with its templates replaced by upper-case words."""
    text = re.sub(r"\{\{ *\$labels\.(\w+) *\}\}", lambda label: label[1].upper(), text)
    return re.sub(r"\{\{ *\$value[^}]*\}\}", "VALUE", text)


def section(rule: dict[str, Any]) -> str:
    """Return the section of one alert.

    Raises:
        KeyError: the alert lacks a required text.
    """
    notes = rule["annotations"]
    facts = [f"Severity: {rule['labels']['severity']}", f"after: {rule.get('for', 'at once')}"]
    if "threshold" in notes:
        facts.append(f"threshold: {notes['threshold']}")
    lines = [f"### {rule['alert']}", "", f"*{'; '.join(facts)}.*", "", f"{protected(notes['summary'])}.", ""]
    lines += [protected(" ".join(notes["description"].split())), ""]
    return "\n".join([*lines, "```text", *shown(notes["runbook"]).strip().splitlines(), "```", ""])


def protected(text: str) -> str:
    """Return a text with Markdown markup escaped."""
    return re.sub(r"([\\`*_<>\[\]|])", r"\\\1", shown(text))


def alert_page(folder: Path) -> str:
    """Return the page.

    Args:
        folder: folder of the rule files.

    Raises:
        KeyError: a file has no heading in TOPICS.
    """
    topics = {TOPICS[path.stem]: path for path in sorted(folder.glob("alerts_*.yml"))}
    parts = [HEAD]
    for title in TOPICS.values():
        groups = yaml.safe_load(topics[title].read_text(encoding="utf-8"))["groups"]
        rules = [rule for group in groups for rule in group["rules"] if "alert" in rule]
        parts += [f"## {title}\n", *map(section, rules)]
    return "\n".join(parts)
