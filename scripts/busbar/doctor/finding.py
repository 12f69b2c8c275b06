"""Findings of `busbar doctor`, and their output as text and JSON."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

from ansible_collections.busbar.cluster.plugins.module_utils.common.problems import make_problem
from ansible_collections.busbar.cluster.plugins.plugin_utils.common.problem_report import group_problems
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.common.hostlist import fold_hosts
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.common.printable import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ansible_collections.busbar.cluster.plugins.module_utils.common.problems import Problem

ERROR, WARNING = "ERROR", "WARNING"
SEVERITIES = (ERROR, WARNING)
HERE = "provisioning host"


class Finding(NamedTuple):
    """A problem with its remedy.

    Attributes:
        severity: one of SEVERITIES.
        hosts: names; empty for the whole site.
        key: variable, file or other subject.
        problem: the problem.
        remedy: the command or action that fixes it.
    """

    severity: str
    hosts: tuple[str, ...]
    key: str
    problem: str
    remedy: str


def here(severity: str, key: str, problem: str, remedy: str) -> Finding:
    """Return a finding about the provisioning host."""
    return Finding(severity, (HERE,), key, problem, remedy)


def findings_of(severity: str, problems: Iterable[Problem]) -> Iterator[Finding]:
    """Yield a finding for each problem; equal problems of several hosts are merged."""
    checked = (make_problem(each["hosts"], each["key"], each["problem"], each["remedy"]) for each in problems)
    for each in group_problems(checked):
        yield Finding(severity, tuple(each["hosts"]), each["key"], each["problem"], each["remedy"])


def as_text(findings: Iterable[Finding]) -> str:
    """Return one line per finding, the remedy below; errors first."""
    lines = []
    for each in sorted(findings, key=lambda item: SEVERITIES.index(item.severity)):
        who = each.hosts[0] if each.hosts == (HERE,) else fold_hosts(each.hosts)
        place = ": ".join(filter(None, (who, each.key)))
        lines += [f"{each.severity} {place}: {each.problem}", f"    → {each.remedy}"]
    return "\n".join(printable(line) for line in lines)


def as_json(findings: Iterable[Finding]) -> str:
    """Return the findings as JSON, errors first."""
    ordered = sorted(findings, key=lambda item: SEVERITIES.index(item.severity))
    return json.dumps({"findings": [each._asdict() for each in ordered]}, indent=2)
