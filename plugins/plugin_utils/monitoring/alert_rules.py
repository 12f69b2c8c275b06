# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""Apply a site's overrides of alerts: enabled, for, severity and threshold.

Prometheus's rule schema has no field for thresholds. An alert with a configurable threshold repeats it in the
annotation `threshold`. An override replaces each equal number after a comparison operator in the expression.
"""

from __future__ import annotations

import re
from copy import deepcopy
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from ...module_utils.common.problems import Problem, make_problem

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

SEVERITIES = ("critical", "warning", "info", "none")
KEYS = ("enabled", "for", "severity", "threshold")
# Prometheus's duration syntax: each unit once, in descending order, or a bare 0.
_DURATION = re.compile(r"0|(?=\d)(\d+y)?(\d+w)?(\d+d)?(\d+h)?(\d+m)?(\d+s)?(\d+ms)?")


def at_threshold(expression: str, old: str, new: str) -> tuple[str, int]:
    """Return the expression with each comparison to `old` changed to `new`, and the number of replacements."""
    compared = re.compile(rf"([<>]=?\s*){re.escape(old)}(?![\w.])")
    return compared.subn(lambda found: found.group(1) + new, expression)


def _rules(files: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for content in files.values():
        for group in content["groups"]:
            yield from group.get("rules") or []


def _number(value: object) -> str | None:
    """Return a number as PromQL writes it, or None if the value is not a finite number."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
    except ValueError:
        return None
    return f"{number:.15g}" if abs(number) < float("inf") else None


def _nearest(word: str, words: list[str]) -> str:
    near = get_close_matches(word, words, n=1, cutoff=0.5)
    return f"did you mean {near[0]}?" if near else "use one of " + ", ".join(words)


def _threshold_problem(annotations: Mapping[str, str], value: object) -> tuple[str, str] | None:
    if "threshold" not in annotations:
        return "this alert has no configurable threshold", "remove threshold; only for and severity can be set"
    if _number(value) is None:
        return f"{value!r} is not a number", f"use a number in the unit of the default {annotations['threshold']}"
    return None


def _key_problem(rule: Mapping[str, Any], key: str, value: object) -> tuple[str, str] | None:
    """Return the problem and remedy for one key of an override, or None."""
    if key not in KEYS:
        return f"an alert has no {key!r}", _nearest(key, list(KEYS))
    if key == "enabled" and not isinstance(value, bool):
        return f"{value!r} must be true or false", "set enabled: false to disable the alert"
    if key == "for" and not _DURATION.fullmatch(str(value)):
        return f"{value!r} is not a Prometheus duration", "use a number with a unit, such as 90s, 10m or 1h30m"
    if key == "severity" and value not in SEVERITIES:
        return f"{value!r} is not a severity", _nearest(str(value), list(SEVERITIES))
    if key == "threshold":
        return _threshold_problem(rule.get("annotations") or {}, value)
    return None


def alert_problems(files: Mapping[str, Any], overrides: Mapping[str, Any], host: str) -> list[Problem]:
    """Return the problems with a site's `prometheus_alerts`.

    Args:
        files: content of the rule files by name.
        overrides: for each alert name, any of `enabled`, `for`, `severity`, `threshold`.
        host: the Prometheus host, for messages.
    """
    alerts = {rule["alert"]: rule for rule in _rules(files) if "alert" in rule}
    problems = []
    for name, changes in overrides.items():
        place = f"prometheus_alerts.{name}"
        if name not in alerts:
            problems.append(make_problem([host], place, "is not the name of an alert", _nearest(name, sorted(alerts))))
        elif not isinstance(changes, dict):
            remedy = f"use a mapping such as {{enabled: false}} with any of {', '.join(KEYS)}"
            problems.append(make_problem([host], place, f"{changes!r} is not a mapping of changes", remedy))
        else:
            for key, value in changes.items():
                if wrong := _key_problem(alerts[name], key, value):
                    problems.append(make_problem([host], f"{place}.{key}", *wrong))
    return problems


def _changed(rule: dict[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    if "for" in changes:
        rule["for"] = str(changes["for"])
    if "severity" in changes:
        rule.setdefault("labels", {})["severity"] = changes["severity"]
    if "threshold" in changes:
        new = _number(changes["threshold"]) or ""
        rule["expr"], _ = at_threshold(rule["expr"], rule["annotations"]["threshold"], new)
        rule["annotations"]["threshold"] = new
    return rule


def alert_rules(files: Mapping[str, Any], overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Return the content of the rule files with a site's overrides applied; the input is not modified.

    Args:
        files: content of the rule files by name.
        overrides: overrides that passed `alert_problems`.
    """
    result: dict[str, Any] = {}
    for name, content in files.items():
        groups = []
        for group in deepcopy(content["groups"]):
            group["rules"] = [
                _changed(rule, overrides.get(rule.get("alert"), {}))
                for rule in group.get("rules") or []
                if overrides.get(rule.get("alert"), {}).get("enabled", True)
            ]
            if group["rules"]:
                groups.append(group)
        result[name] = {**content, "groups": groups}
    return result
