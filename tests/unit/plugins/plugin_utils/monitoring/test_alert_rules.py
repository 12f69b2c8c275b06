"""Tests of a site's overrides of the collection's alerts."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.busbar.cluster.plugins.plugin_utils.monitoring.alert_rules import (
    alert_problems,
    alert_rules,
    at_threshold,
)
from ansible_collections.busbar.cluster.plugins.plugin_utils.monitoring.prometheus_plan import (
    rule_files,
    rules_of,
)

RULES = Path(__file__).resolve().parents[5] / "roles" / "prometheus" / "files" / "rules"
FILES = {path.name: yaml.safe_load(path.read_text(encoding="utf-8")) for path in sorted(RULES.glob("*.yml"))}


def alert(files: dict[str, Any], name: str) -> dict[str, Any] | None:
    found = [
        rule
        for content in files.values()
        for group in content["groups"]
        for rule in group["rules"]
        if rule.get("alert") == name
    ]
    return found[0] if found else None


def test_override_changes_only_its_alert_and_not_the_input() -> None:
    before = deepcopy(FILES)
    changes = {"GpuTooHot": {"for": "10m", "severity": "critical", "threshold": 80}, "RaidDegraded": {"enabled": False}}
    result = alert_rules(FILES, changes)
    hot = alert(result, "GpuTooHot")
    assert hot is not None
    assert (hot["for"], hot["labels"]["severity"], hot["annotations"]["threshold"]) == ("10m", "critical", "80")
    assert hot["expr"].endswith("> 80")
    assert alert(result, "RaidDegraded") is None
    assert alert(result, "NfsStale") == alert(FILES, "NfsStale")
    assert before == FILES


def test_group_without_rules_is_left_out() -> None:
    files = {
        "a.yml": {"groups": [{"name": "a", "rules": [{"alert": "A", "expr": "x", "labels": {}, "annotations": {}}]}]}
    }
    assert alert_rules(files, {"A": {"enabled": False}}) == {"a.yml": {"groups": []}}


@pytest.mark.parametrize(
    ("expression", "old", "expected"),
    [
        ("a > 2", "2", "a > 9"),
        ("increase(a[2h]) > 2 or b >= 2", "2", "increase(a[2h]) > 9 or b >= 9"),
        ("a{b='> 2x'} < 2", "2", "a{b='> 2x'} < 9"),
        ("a / 86400 < 1", "1", "a / 86400 < 9"),
        ("a > 100 and b > 10", "10", "a > 100 and b > 9"),
        ("a > 0.05", "0.05", "a > 9"),
        ("a > 2.5", "2", "a > 2.5"),
    ],
)
def test_only_the_compared_number_is_replaced(expression: str, old: str, expected: str) -> None:
    assert at_threshold(expression, old, "9")[0] == expected


@pytest.mark.parametrize(
    ("overrides", "key", "problem", "remedy"),
    [
        ({"NodeDwn": {}}, "prometheus_alerts.NodeDwn", "is not the name of an alert", "did you mean NodeDown?"),
        ({"NodeDown": False}, "prometheus_alerts.NodeDown", "False is not a mapping", "{enabled: false}"),
        ({"NodeDown": {"fro": "1m"}}, "prometheus_alerts.NodeDown.fro", "no 'fro'", "did you mean for?"),
        ({"NodeDown": {"for": "5 min"}}, "prometheus_alerts.NodeDown.for", "not a Prometheus duration", "1h30m"),
        ({"NodeDown": {"for": ""}}, "prometheus_alerts.NodeDown.for", "not a Prometheus duration", "1h30m"),
        ({"NodeDown": {"for": 300}}, "prometheus_alerts.NodeDown.for", "not a Prometheus duration", "1h30m"),
        (
            {"NodeDown": {"severity": "criticl"}},
            "prometheus_alerts.NodeDown.severity",
            "not a severity",
            "mean critical?",
        ),
        (
            {"NodeDown": {"severity": "P1"}},
            "prometheus_alerts.NodeDown.severity",
            "not a severity",
            "use one of critical",
        ),
        ({"NodeDown": {"enabled": "off"}}, "prometheus_alerts.NodeDown.enabled", "must be true or", "enabled: false"),
        ({"NodeDown": {"threshold": 3}}, "prometheus_alerts.NodeDown.threshold", "no configurable threshold", "remove"),
        ({"GpuTooHot": {"threshold": "hot"}}, "prometheus_alerts.GpuTooHot.threshold", "'hot' is not a number", "86"),
        ({"GpuTooHot": {"threshold": True}}, "prometheus_alerts.GpuTooHot.threshold", "True is not a number", "86"),
    ],
)
def test_invalid_override_is_reported_with_key_and_remedy(
    overrides: dict[str, Any], key: str, problem: str, remedy: str
) -> None:
    (found,) = alert_problems(FILES, overrides, "ctl")
    assert (found["hosts"], found["key"]) == (["ctl"], key)
    assert problem in found["problem"]
    assert remedy in found["remedy"]


@pytest.mark.parametrize("duration", ["0", "0s", "90s", "10m", "1h30m", "1d", "500ms", "1w2d"])
def test_prometheus_durations_are_accepted(duration: str) -> None:
    assert alert_problems(FILES, {"NodeDown": {"for": duration}}, "ctl") == []


SHIPPED = {
    "a": "# kept\ngroups: [{name: a, rules: [{record: 'a:b', expr: b}]}]\n",
    "b": "groups: [{name: b, rules: [{alert: Hot, expr: t > 5, annotations: {threshold: '5'}}]}]\n",
}
SITE = {"site": [{"name": "site", "rules": [{"alert": "Own", "expr": "x"}]}]}


def written(alerts: dict[str, Any]) -> dict[str, str]:
    return {Path(each["path"]).stem: each["content"] for each in rule_files(SHIPPED, SITE, alerts=alerts)}


def test_only_files_with_a_changed_alert_are_rewritten() -> None:
    files = written({"Hot": {"threshold": 7}})
    assert files["busbar_a"] == SHIPPED["a"]
    assert yaml.safe_load(files["busbar_b"])["groups"][0]["rules"][0]["expr"] == "t > 7"
    assert "prometheus_alerts" in files["busbar_b"]
    assert written({})["busbar_b"] == SHIPPED["b"]


def test_alerts_of_the_site_can_also_be_overridden() -> None:
    changed = yaml.safe_load(written({"Own": {"severity": "info", "for": "1m"}})["busbar_site"])
    assert changed["groups"][0]["rules"] == [{"alert": "Own", "expr": "x", "for": "1m", "labels": {"severity": "info"}}]
    assert alert_problems(rules_of(SHIPPED, SITE), {"Own": {"threshold": 1}}, "ctl")[0]["key"].endswith("Own.threshold")
