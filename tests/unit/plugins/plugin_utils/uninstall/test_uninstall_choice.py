"""Tests of requests to uninstall hosts, and of their problems."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from ansible_collections.busbar.cluster.plugins.plugin_utils.uninstall.choice import (
    uninstall_choice,
    uninstall_problems,
)

if TYPE_CHECKING:
    from ansible_collections.busbar.cluster.plugins.plugin_utils.uninstall.choice import Answer

GROUPS = {
    "all": ["ctl", "login", "gpu1", "gpu2"],
    "slurm_controller": ["ctl"],
    "slurm_login": ["login"],
    "slurm_compute": ["gpu1", "gpu2"],
}
HERE: Answer = {"recorded": True, "serves": []}
GONE: Answer = {"recorded": False, "serves": []}


def test_hosts_that_others_need_are_uninstalled_last() -> None:
    assert uninstall_choice("ctl,gpu[1-2],login", GROUPS) == {
        "names": ["ctl", "gpu1", "gpu2", "login"],
        "compute": ["gpu1", "gpu2"],
        "clients": ["login"],
        "servers": ["ctl"],
    }


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("gpu[1-2]", []),
        ("", ["is empty"]),
        ("gpu[1", ["is not a list of hosts"]),
        ("gpu7", ["is not a host of the inventory; did you mean gpu"]),
    ],
)
def test_names(asked: str, said: list[str]) -> None:
    found = uninstall_problems(asked, GROUPS)
    assert [words in each["problem"] for each, words in zip(found, said, strict=True)] == [True] * len(said)


@pytest.mark.parametrize(
    ("asked", "answers", "leaves_data", "said"),
    [
        ("gpu1", {"ctl": HERE, "gpu1": HERE}, False, []),
        ("gpu1", {"ctl": HERE, "gpu1": None}, False, ["unreachable"]),
        ("ctl", {"ctl": HERE, "login": GONE, "gpu1": GONE, "gpu2": HERE}, True, ["serves gpu2, which still belong"]),
        # An unreachable host does not count as uninstalled.
        ("ctl", {"ctl": HERE, "login": GONE, "gpu1": GONE}, True, ["serves gpu2, which still belong"]),
        ("ctl", {"ctl": HERE, "login": GONE, "gpu1": GONE, "gpu2": GONE}, False, []),
        ("ctl,login,gpu[1-2]", dict.fromkeys(GROUPS["all"], HERE), False, []),
        (
            "ctl,login,gpu[1-2]",
            {**dict.fromkeys(GROUPS["all"], HERE), "ctl": {"recorded": True, "serves": ["job 7 of alice"]}},
            False,
            ["without a server: job 7 of alice"],
        ),
        (
            "ctl,login,gpu[1-2]",
            {**dict.fromkeys(GROUPS["all"], HERE), "ctl": {"recorded": True, "serves": ["job 7 of alice"]}},
            True,
            [],
        ),
        # A second run, after everything was removed.
        ("ctl", {"ctl": GONE, "login": HERE, "gpu1": HERE, "gpu2": HERE}, False, []),
    ],
)
def test_answers(asked: str, answers: dict[str, Answer | None], leaves_data: bool, said: list[str]) -> None:  # noqa: FBT001
    found = uninstall_problems(asked, GROUPS, answers, leaves_data=leaves_data)
    assert [words in each["problem"] for each, words in zip(found, said, strict=True)] == [True] * len(said)
    assert all(each["remedy"] for each in found)
