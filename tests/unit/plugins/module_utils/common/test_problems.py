"""Problems: grouped, folded, written."""

from __future__ import annotations

import pytest
from ansible_collections.busbar.cluster.plugins.module_utils.common.problems import (
    fold_hosts,
    group_problems,
    make_problem,
    problem_report,
    unfold_hosts,
)


@pytest.mark.parametrize(
    ("hosts", "expected"),
    [
        (["gpu2", "gpu1", "ctl", "gpu1"], "ctl,gpu[1-2]"),
        ([f"gpu{number:03}" for number in range(1, 129)], "gpu[001-128]"),
        ([], ""),
        (["a b", "c[]"], "a b,c[]"),
    ],
)
def test_fold(hosts: list[str], expected: str) -> None:
    assert fold_hosts(hosts) == expected


def test_unfold() -> None:
    assert unfold_hosts("ctl,gpu[1-2]") == ["ctl", "gpu1", "gpu2"]


def test_unfold_names_what_is_wrong() -> None:
    with pytest.raises(ValueError, match=r"gpu\[1-"):
        unfold_hosts("gpu[1-")


def test_equal_problems_become_one() -> None:
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


def test_nothing_wrong_is_no_text() -> None:
    assert problem_report([]) == ""
