"""The border of the filter `busbar.cluster.account_plan`."""

from __future__ import annotations

from typing import Any

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.busbar.cluster.plugins.filter.account_plan import FilterModule

GROUPS = [{"name": "research", "gid": 2000}]
ALICE = {"name": "alice", "uid": 2001, "group": "research"}
OPTIONS: dict[str, Any] = {
    "shell": "/bin/sh",
    "home_base": "/home",
    "create_home": True,
    "key_directory": "/keys",
    "host": "gpu1",
}
plan = FilterModule().filters()["account_plan"]
EMPTY: dict[str, Any] = {"users": {}, "groups": {}, "key_files": []}


def test_changes_are_told() -> None:
    planned = plan([ALICE], GROUPS, EMPTY, **OPTIONS)
    assert (planned["problems"], planned["changes"]) == ([], True)
    assert not plan([], [], EMPTY, **OPTIONS)["changes"]


def test_nothing_is_planned_with_a_conflict() -> None:
    found = {**EMPTY, "users": {"zed": {"uid": 2001}}}
    planned = plan([ALICE], GROUPS, found, **OPTIONS)
    assert list(planned) == ["problems"]
    assert "taken by zed" in planned["problems"][0]["problem"]


def test_bad_item_is_an_error_of_the_filter() -> None:
    with pytest.raises(AnsibleFilterError, match="gpu1: users_accounts, users_groups: 'uid' is missing"):
        plan([{"name": "alice"}], GROUPS, EMPTY, **OPTIONS)


def test_who_asks_names_the_option() -> None:
    found = {**EMPTY, "users": {"zed": {"uid": 2001}}}
    (problem,) = plan([ALICE], GROUPS, found, key="validation_uid", **OPTIONS)["problems"]
    assert (problem["hosts"], problem["key"]) == (["gpu1"], "validation_uid")
