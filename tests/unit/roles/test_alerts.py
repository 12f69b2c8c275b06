"""Tests of the alert rules with promtool; each alert names its checks and commands for the person on call."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from ansible_collections.busbar.cluster.plugins.plugin_utils.monitoring.alert_rules import (
    SEVERITIES,
    at_threshold,
)
from known_metrics import known_metrics, names_in
from promtool import promtool

if TYPE_CHECKING:
    from collections.abc import Iterator

TOP = Path(__file__).resolve().parents[3]
CASES = Path(__file__).parent / "alerts"
TOPICS = sorted(path.stem for path in CASES.glob("*.yml"))
# The dead man's switch always fires.
NEVER_QUIET = {"Watchdog"}


def load(path: Path) -> Any:  # noqa: ANN401 - YAML has no fixed type
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def rules() -> dict[str, dict[str, Any]]:
    files = sorted((TOP / "roles" / "prometheus" / "files" / "rules").glob("alerts_*.yml"))
    found = [rule for path in files for group in load(path)["groups"] for rule in group["rules"]]
    return {rule.get("alert") or rule["record"]: rule for rule in found}


ALERTS = {name: rule for name, rule in rules().items() if "alert" in rule}


def cases() -> Iterator[tuple[str, str, str, dict[str, Any]]]:
    """Yield topic, alert, name and entry of each case: values by series, and the labels that fire by time."""
    for topic in TOPICS:
        for alert, named in load(CASES / f"{topic}.yml").items():
            for name, entry in named.items():
                yield topic, alert, name, entry


def expected(entry: dict[str, Any]) -> dict[str, list[str]]:
    """Return the labels of the alerts that fire, by the time at which Prometheus is asked."""
    return {key: value for key, value in entry.items() if isinstance(value, list)}


def promtool_test(alert: str, name: str, entry: dict[str, Any], interval: str) -> dict[str, Any]:
    """Return a case in the form of promtool."""
    firing = f'ALERTS{{alertname="{alert}",alertstate="firing"'
    queries = [
        {
            "expr": f"{firing}}}",
            "eval_time": time,
            "exp_samples": [{"labels": f"{firing}{',' if labels else ''}{labels}}}", "value": 1} for labels in fires],
        }
        for time, fires in expected(entry).items()
    ]
    series = [{"series": key, "values": value} for key, value in entry.items() if isinstance(value, str)]
    return {
        "name": f"{alert} {name}",
        "interval": entry.get("interval", interval),
        "input_series": [item for item in series if item["series"] != "interval"],
        "promql_expr_test": queries,
    }


def outcomes() -> dict[str, list[list[str]]]:
    """Return the expected results of each case by alert: the labels of firing alerts, or nothing."""
    found: dict[str, list[list[str]]] = {name: [] for name in ALERTS}
    for _topic, alert, _name, entry in cases():
        found[alert] += expected(entry).values()
    return found


OUTCOMES = outcomes()


def test_prometheus_accepts_the_rules() -> None:
    promtool("check", "rules", *sorted((TOP / "roles" / "prometheus" / "files" / "rules").glob("*.yml")))


@pytest.mark.parametrize("topic", TOPICS)
def test_alerts_fire_only_as_expected(topic: str, tmp_path: Path) -> None:
    interval = "5m" if "_slow" in topic else "1m"
    tests = [promtool_test(alert, name, entry, interval) for of, alert, name, entry in cases() if of == topic]
    rules = TOP / "roles/prometheus/files/rules" / f"{topic.replace('_slow', '')}.yml"
    text = json.dumps({"rule_files": [str(rules)], "evaluation_interval": interval, "tests": tests})
    (tmp_path / "cases.yml").write_text(text, encoding="utf-8")
    promtool("test", "rules", "cases.yml", cwd=tmp_path)


@pytest.mark.parametrize("name", sorted(ALERTS))
def test_each_alert_has_a_case_that_fires_and_one_that_does_not(name: str) -> None:
    assert any(labels for labels in OUTCOMES[name]), "no case in which it fires"
    assert name in NEVER_QUIET or any(not labels for labels in OUTCOMES[name]), "no case in which it stays quiet"


@pytest.mark.parametrize("name", sorted(ALERTS))
def test_each_alert_describes_the_problem_and_names_commands(name: str) -> None:
    rule = ALERTS[name]
    assert rule["labels"]["severity"] in SEVERITIES
    notes = rule["annotations"]
    assert set(notes) - {"threshold"} == {"summary", "description", "runbook"}
    assert "\n" not in notes["summary"]
    assert len(notes["summary"]) < 120
    assert 2 <= len(notes["runbook"].splitlines()) <= 5


@pytest.mark.parametrize("name", sorted(ALERTS))
def test_annotations_use_labels_of_the_alert(name: str) -> None:
    used = set(re.findall(r"\$labels\.(\w+)", str(ALERTS[name]["annotations"])))
    for labels in (labels for case in OUTCOMES[name] for labels in case):
        has = set(re.findall(r'(\w+)="', labels))
        assert used <= has, f"{labels} lacks {used - has}"
        if "node" in has:
            assert "$labels.node" in ALERTS[name]["annotations"]["summary"], "the summary names no host"


def test_runbooks_name_existing_tags_of_the_playbooks() -> None:
    named = {tag for rule in ALERTS.values() for tag in re.findall(r"--tags (\w+)", rule["annotations"]["runbook"])}
    files = [*(TOP / "playbooks").glob("*.yml"), *(TOP / "roles").glob("*/tasks/*.yml")]
    lines = [line for path in files for line in path.read_text(encoding="utf-8").splitlines() if "tags:" in line]
    assert named
    assert named <= {word for line in lines for word in re.findall(r"\w+", line)}


@pytest.mark.parametrize("name", [name for name in sorted(ALERTS) if "threshold" in ALERTS[name]["annotations"]])
def test_thresholds_are_numbers_of_the_expression(name: str) -> None:
    rule = ALERTS[name]
    assert at_threshold(rule["expr"], rule["annotations"]["threshold"], "0")[1] > 0


@pytest.mark.parametrize(("name", "rule"), sorted(rules().items()))
def test_rules_query_existing_metrics(name: str, rule: dict[str, Any]) -> None:
    assert names_in(rule["expr"]) <= known_metrics(), name
