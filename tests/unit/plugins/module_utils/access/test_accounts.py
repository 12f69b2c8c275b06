"""Tests of declared accounts: refused declarations, conflicts with a host, and planned changes."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.busbar.cluster.plugins.module_utils.access.account_problems import (
    account_conflicts,
    account_problems,
    removal_conflicts,
)
from ansible_collections.busbar.cluster.plugins.module_utils.access.accounts import (
    account_plan,
    declared_groups,
    key_files,
    password_digest,
    slurm_users,
)

GROUPS = [{"name": "research", "gid": 2000}]
ALICE = {"name": "alice", "uid": 2001, "group": "research", "comment": "Alice"}
BOB = {"name": "bob", "uid": 2002, "group": "research"}
DEFAULTS = {"shell": "/bin/bash", "home_base": "/home", "create_home": True}
ALICE_THERE = {
    "uid": 2001,
    "gid": 2000,
    "comment": "Alice",
    "home": "/home/alice",
    "shell": "/bin/bash",
    "home_exists": True,
    "groups": [],
    "password": "",
}


def _absent(item: dict[str, Any]) -> dict[str, Any]:
    return {"name": item["name"], "state": "absent"}


@pytest.mark.parametrize(
    ("users", "groups", "parts"),
    [
        ([ALICE, BOB], GROUPS, []),
        ([], [], []),
        ([ALICE, {**BOB, "uid": 2001}], GROUPS, ["uid 2001 is declared for both alice and bob"]),
        ([ALICE, {**BOB, "uid": "2001"}], GROUPS, ["uid 2001 is declared for both alice and bob"]),
        ([ALICE, ALICE], GROUPS, ["user alice is declared twice"]),
        ([ALICE], [], ["group research of user alice is not declared"]),
        ([ALICE], [{**GROUPS[0], "state": "absent"}], ["group research of user alice is not declared"]),
        ([ALICE], [*GROUPS, {"name": "staff", "gid": 2000}], ["gid 2000 is declared for both research and staff"]),
        ([{"name": "carol", "uid": 2000}], GROUPS, ["gid 2000 is declared for both research and carol"]),
        ([{"name": "root", "uid": 5}], [], ["'root'"]),
        ([{"name": "../x"}], [], ["'../x'", "uid is missing"]),
        ([{"name": "root", "state": "absent"}], [], ["'root'"]),
        ([{"name": "Carol Smith", "uid": 5}], [], ["'Carol Smith'"]),
        ([{"name": "carol", "uid": 0}], [], ["invalid uid 0"]),
        ([{"name": "carol", "uid": 65534}], [], ["invalid uid 65534"]),
        ([ALICE, _absent(BOB), {"name": "dan", "uid": 2002}], GROUPS, []),
    ],
)
def test_problems(users: list[dict[str, Any]], groups: list[dict[str, Any]], parts: list[str]) -> None:
    problems = account_problems(users, groups)
    assert len(problems) == len(parts)
    for problem, part in zip(problems, parts, strict=True):
        assert part in problem["problem"]
        assert problem["key"].split("[")[0] == ("users_groups" if part.startswith("gid") else "users_accounts")
        assert problem["remedy"]
        assert problem["hosts"] == []


def test_user_without_uid_is_a_directory_user() -> None:
    users: list[dict[str, Any]] = [
        {"name": "Erin.X", "slurm": {}},
        {"name": "root", "slurm": {}},
        {"name": "gone", "state": "absent"},
    ]
    assert account_problems(users, [], known=None) == []
    assert account_problems(users, [], known={"Erin.X"}) == []
    (problem,) = account_problems(users, [])
    assert problem["key"] == "users_accounts[Erin.X]"
    assert "identity_source" in problem["remedy"]
    assert account_problems([{"name": "carol", "uid": None}], [])[0]["key"] == "users_accounts[carol]"
    wrong = account_problems([{"name": "erin", "home": "/x", "groups": ["docker"]}], [], known=None)
    assert [each["key"] for each in wrong] == ["users_accounts[erin].groups", "users_accounts[erin].home"]
    assert account_conflicts("gpu1", users, GROUPS, {"Erin.X": 70001}, {}) == []
    plan = _plan([*users, ALICE], {"alice": ALICE_THERE, "Erin.X": ALICE_THERE}, {"research": 2000})
    assert not any(plan.values())


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ({}, []),
        ({"slurm": None}, []),
        ({"slurm": {}}, [{"accounts": []}]),
        ({"slurm": {"account": "a"}}, [{"accounts": ["a"]}]),
        (
            {"slurm": {"account": "a", "accounts": ["b", "a"], "limits": {"MaxJobs": 1}, "admin": "Operator"}},
            [{"accounts": ["a", "b"], "limits": {"MaxJobs": 1}, "admin": "Operator"}],
        ),
        ({"slurm": {"accounts": ["b", "a"], "state": "present"}}, [{"accounts": ["b", "a"]}]),
        ({"slurm": {"account": "a", "state": "absent"}}, [{"state": "absent"}]),
        ({"state": "absent", "slurm": {"account": "a"}}, [{"state": "absent"}]),
        ({"state": "absent"}, [{"state": "absent"}]),
    ],
)
def test_slurm_users_are_derived_from_accounts(entry: dict[str, Any], expected: list[dict[str, Any]]) -> None:
    assert slurm_users([{**ALICE, **entry}]) == [{"name": "alice", **each} for each in expected]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("home", "../carol"),
        ("home", "/"),
        ("shell", "bash"),
        ("shell", "/bin/bash -l"),
        ("comment", "Carol\nroot::0:0::/:/bin/sh"),
        ("password_hash", "hunter2"),
    ],
)
def test_field_invalid_in_passwd_is_refused(field: str, value: str) -> None:
    (problem,) = account_problems([{**ALICE, field: value}], GROUPS)
    assert problem["key"] == f"users_accounts[alice].{field}"
    assert "hunter2" not in problem["problem"] + problem["remedy"]
    sound = {"home": "/data/alice", "shell": "/usr/bin/zsh", "comment": "A. B., Lab 3", "password_hash": "$y$j9T$x/.$y"}
    assert account_problems([{**ALICE, **sound}], GROUPS) == []


@pytest.mark.parametrize(
    ("users", "passwd", "group_ids", "parts"),
    [
        ([ALICE], {}, {}, []),
        ([ALICE], {"alice": 2001}, {"research": 2000}, []),
        ([ALICE], {"zed": 2001}, {}, ["uid 2001 of user alice is taken by zed"]),
        ([ALICE, _absent({"name": "zed"})], {"zed": 2001}, {"zed": 2001}, []),
        ([ALICE], {"alice": 1000}, {}, ["user alice has a different uid on the host (found 1000, expected 2001)"]),
        ([ALICE], {"alice": 1000, "zed": 2001}, {}, ["user alice has a different uid", "taken by zed"]),
        ([ALICE], {}, {"games": 2000}, ["gid 2000 of group research is taken by games"]),
        ([ALICE], {}, {"research": 100}, ["group research has a different gid on the host (found 100"]),
        ([{"name": "carol", "uid": 7}], {}, {"lp": 7}, ["gid 7 of group carol is taken by lp"]),
        ([{**ALICE, "groups": ["docker"]}], {}, {}, ["docker of user alice"]),
        ([{**ALICE, "groups": ["docker"]}], {}, {"docker": 100}, []),
    ],
)
def test_conflicts(
    users: list[dict[str, Any]], passwd: dict[str, int], group_ids: dict[str, int], parts: list[str]
) -> None:
    conflicts = account_conflicts("gpu1", users, GROUPS, passwd, group_ids)
    assert len(conflicts) == len(parts)
    for conflict, part in zip(conflicts, parts, strict=True):
        assert part in conflict["problem"]
        assert conflict["key"] == ("users_groups" if part.startswith(("gid", "group")) else "users_accounts")
        assert conflict["remedy"]
        assert conflict["hosts"] == ["gpu1"]


def test_a_taken_uid_names_the_way_to_rename_a_user() -> None:
    (conflict,) = account_conflicts("gpu1", [{**ALICE, "name": "alicia"}], GROUPS, {"alice": 2001}, {"research": 2000})
    assert "to rename alice, add {name: alice, state: absent} and set home of alicia" in conflict["remedy"]
    (conflict,) = account_conflicts("gpu1", [{**ALICE, "uid": 470}], GROUPS, {"sys": 470}, {"research": 2000})
    assert "rename" not in conflict["remedy"]


def test_a_changed_home_is_reported_if_the_former_one_exists() -> None:
    user = {**ALICE, "home": "/shared/home/alice"}
    plan: dict[str, Any] = _plan([user], {"alice": ALICE_THERE}, {"research": 2000})
    assert plan["former_homes"] == ["the home of alice changes from /home/alice to /shared/home/alice"]
    assert [each["home"] for each in plan["users"]] == ["/shared/home/alice"]
    assert _plan([user], {"alice": {**ALICE_THERE, "home_exists": False}}, {"research": 2000})["former_homes"] == []
    assert _plan([ALICE], {"alice": ALICE_THERE}, {"research": 2000})["former_homes"] == []


def test_user_gets_an_own_group() -> None:
    assert declared_groups([{"name": "carol", "uid": 7}, ALICE], GROUPS) == [
        *GROUPS,
        {"name": "carol", "gid": 7, "state": "present"},
    ]


def _plan(users: list[dict[str, Any]], here: dict[str, Any], groups: dict[str, int]) -> dict[str, list[dict[str, Any]]]:
    return account_plan(users, GROUPS, {"users": here, "groups": groups}, DEFAULTS, {})


def test_fresh_host_needs_everything() -> None:
    plan = _plan([ALICE, BOB], {}, {"root": 0})
    assert plan["groups"] == GROUPS
    assert [user["name"] for user in plan["users"]] == ["alice", "bob"]
    assert plan["users"][0] == {
        "name": "alice",
        "uid": 2001,
        "group": "research",
        "groups": [],
        "comment": "Alice",
        "shell": "/bin/bash",
        "home": "/home/alice",
        "create_home": True,
    }


def test_finished_host_needs_nothing() -> None:
    plan = _plan([ALICE, _absent(BOB)], {"alice": ALICE_THERE}, {"research": 2000})
    assert not any(plan.values())


@pytest.mark.parametrize(
    "change",
    [
        {"comment": "Alice A."},
        {"shell": "/bin/sh"},
        {"home": "/data/alice"},
        {"groups": ["video"]},
        {"create_home": True, "home": "/home/alice2"},
    ],
)
def test_one_difference_is_one_change(change: dict[str, Any]) -> None:
    plan = _plan([{**ALICE, **change}], {"alice": ALICE_THERE}, {"research": 2000, "video": 44})
    assert [user["name"] for user in plan["users"]] == ["alice"]
    assert not any(value for key, value in plan.items() if key not in {"users", "former_homes"})


def test_undeclared_comment_is_kept() -> None:
    there = {**ALICE_THERE, "uid": 2002, "home": "/home/bob", "comment": "set by hand"}
    assert not any(_plan([BOB], {"bob": there}, {"research": 2000}).values())


def test_missing_home_is_created_only_if_requested() -> None:
    here = {"alice": {**ALICE_THERE, "home_exists": False}}
    assert _plan([ALICE], here, {"research": 2000})["users"]
    assert not _plan([{**ALICE, "create_home": False}], here, {"research": 2000})["users"]


def test_undeclared_groups_are_kept_and_declared_ones_are_exact() -> None:
    groups = [*GROUPS, {"name": "old", "gid": 2100}]
    here = {"alice": {**ALICE_THERE, "groups": ["old", "video"]}}
    found = {"users": here, "groups": {"research": 2000, "old": 2100, "video": 44}}
    plan = account_plan([ALICE], groups, found, DEFAULTS, {})
    assert plan["users"][0]["groups"] == ["video"]


def test_removal() -> None:
    users = [_absent(ALICE), {**_absent(BOB), "remove_home": True}]
    plan = _plan(users, {"alice": ALICE_THERE, "bob": ALICE_THERE}, {"research": 2000, "bob": 2002})
    assert plan["users_absent"] == [{"name": "alice", "remove_home": False}, {"name": "bob", "remove_home": True}]
    assert plan["groups_absent"] == [{"name": "bob"}]


@pytest.mark.parametrize(("here", "planned"), [("", ["alice"]), ("$6$x$y", []), ("$6$x$other", ["alice"])])
def test_password_is_planned_by_its_digest(here: str, planned: list[str]) -> None:
    there, wanted = {**ALICE_THERE, "password": password_digest(here) if here else ""}, password_digest("$6$x$y")
    found = {"users": {"alice": there}, "groups": {"research": 2000}}
    plan = account_plan([ALICE, _absent(BOB)], GROUPS, found, DEFAULTS, dict.fromkeys(("alice", "bob"), wanted))
    assert [item["name"] for item in plan["passwords"]] == planned
    assert "$6$" not in str(plan)


def test_key_files() -> None:
    users = [{**ALICE, "authorized_keys": ["ssh-ed25519 A alice\n", "ssh-ed25519 B"]}, BOB, _absent({"name": "old"})]
    assert key_files(users, ["bob", "old", "not-ours"], "/keys/") == [
        {"path": "/keys/alice", "content": "ssh-ed25519 A alice\nssh-ed25519 B\n"},
        {"path": "/keys/bob", "state": "absent"},
        {"path": "/keys/old", "state": "absent"},
    ]


def test_user_with_running_processes_is_not_removed() -> None:
    active = {"alice": ["job 3 (waiting)"], "bob": ["job 11 (on gpu1)", "process 9938 (sleep, job 11)"]}
    leaving = [{"name": name, "state": "absent"} for name in ("bob", "dan")]
    conflicts = removal_conflicts("gpu1", [ALICE, *leaving], active)
    assert len(conflicts) == 1
    assert (
        "user bob cannot be removed yet (running: job 11 (on gpu1), process 9938 (sleep, job 11)"
        in conflicts[0]["problem"]
    )
    assert "scancel --user=bob" in conflicts[0]["remedy"]


@pytest.mark.parametrize(
    ("declared", "locked", "expires"),
    [
        ({}, True, None),
        ({}, False, None),
        ({"locked": True}, False, 86400),
        ({"locked": True}, True, None),
        ({"locked": False}, True, -1),
        ({"locked": False}, False, None),
    ],
)
def test_account_is_locked_and_unlocked_only_if_declared(
    declared: dict[str, bool], *, locked: bool, expires: int | None
) -> None:
    found = {"users": {"alice": {**ALICE_THERE, "locked": locked}}, "groups": {"research": 2000}}
    users = account_plan([{**ALICE, **declared}], GROUPS, found, DEFAULTS, {})["users"]
    assert [user.get("expires") for user in users] == ([] if expires is None else [expires])
