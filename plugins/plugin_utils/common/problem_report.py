"""Format problems as text: equal problems are grouped, and host names folded."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...module_utils.common.problems import Problem, make_problem, problem_lines
from ..engine.common.hostlist import fold_hosts

if TYPE_CHECKING:
    from collections.abc import Iterable


def group_problems(problems: Iterable[Problem]) -> list[Problem]:
    """Return the problems in order; equal problems are merged into one with all their hosts, sorted."""
    grouped: dict[tuple[str, str, str], dict[str, None]] = {}
    for item in problems:
        hosts = grouped.setdefault((item["key"], item["problem"], item["remedy"]), {})
        hosts.update(dict.fromkeys(item["hosts"]))
    return [make_problem(sorted(hosts), *rest) for rest, hosts in grouped.items()]


def problem_report(problems: Iterable[Problem]) -> str:
    """Return the problems as text: hosts, key and problem on one line, the remedy below; '' without problems."""
    grouped = group_problems(problems)
    return "\n".join(line for item in grouped for line in problem_lines(item, fold_hosts(item["hosts"])))
