"""Tests of merging equal problems, and of the report of problems."""

from __future__ import annotations

from ansible_collections.busbar.cluster.plugins.module_utils.common.problems import make_problem
from ansible_collections.busbar.cluster.plugins.plugin_utils.common.problem_report import (
    group_problems,
    problem_report,
)


def test_equal_problems_are_merged() -> None:
    problems = [
        make_problem(["gpu2"], "clock", "is off", "set it"),
        make_problem(["ctl"], "disk /", "is full", "make room"),
        make_problem(["gpu1"], "clock", "is off", "set it"),
    ]
    grouped = group_problems(problems)
    assert [item["hosts"] for item in grouped] == [["gpu1", "gpu2"], ["ctl"]]


def test_report() -> None:
    problems = [
        make_problem(["gpu2", "gpu1"], "clock", "is off", "set it"),
        make_problem([], "x.yml", "is bad", "mend it"),
    ]
    assert problem_report(problems).splitlines() == [
        "gpu[1-2]: clock: is off",
        "    remedy: set it",
        "x.yml: is bad",
        "    remedy: mend it",
    ]


def test_no_problem_gives_no_text() -> None:
    assert problem_report([]) == ""
