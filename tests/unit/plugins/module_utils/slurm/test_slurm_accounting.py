"""Tests of the sacctmgr commands that apply the accounting declaration."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.busbar.cluster.plugins.module_utils.slurm import accounting as slurm_accounting
from ansible_collections.busbar.cluster.plugins.module_utils.slurm.accounting import (
    declaration_errors,
    parse_state,
    plan,
)


def answer(query: str, *rows: dict[str, str]) -> str:
    """Return rows in sacctmgr's format."""
    words = slurm_accounting.QUERIES[query]
    names = words[-1].partition("=")[2].split(",")
    return "".join("|".join(row.get(name, "") for name in names) + "\n" for row in rows)


def held(*, qos: dict[str, str] | None = None, **alice: str) -> dict[str, Any]:
    """Return accounting data with cluster c, account research and user alice."""
    return parse_state(
        {
            "clusters": answer("clusters", {"Cluster": "c"}),
            "accounts": answer(
                "accounts",
                {"Account": "root", "Description": "default root account", "Organization": "root"},
                {"Account": "research", "Description": "research", "Organization": "research"},
            ),
            "users": answer("users", {"User": "alice", "DefaultAccount": "research", "AdminLevel": "None"}),
            "qos": answer("qos", {"Name": "normal", "Description": "Normal", "Priority": "0"}, qos or {"Name": "high"}),
            "associations": answer(
                "associations",
                {"Account": "root", "Fairshare": "1", "QOS": "normal"},
                {"Account": "research", "ParentName": "root", "Fairshare": "1"},
                {"Account": "research", "User": "alice", "Fairshare": "1", **alice},
            ),
        }
    )


RESEARCH = {"name": "research"}
ALICE: dict[str, Any] = {"name": "alice", "accounts": ["research"]}
HIGH = {"Name": "high", "Description": "high", "Priority": "0"}


def test_empty_accounting_gets_all_entries() -> None:
    accounts: list[dict[str, Any]] = [
        {"name": "vision", "parent": "research", "organization": "x", "limits": {"GrpTRES": "gres/gpu=4"}},
        RESEARCH,
    ]
    users: list[dict[str, Any]] = [{**ALICE, "accounts": ["vision", "research"], "admin": "Operator"}]
    qos: list[dict[str, Any]] = [
        {"name": "High", "priority": 10, "flags": ["DenyOnLimit"], "limits": {"MaxWall": "1:00:00"}}
    ]
    assert [" ".join(words) for words in plan(parse_state({}), "c", accounts, users, qos)] == [
        "add cluster c",
        "add qos high",
        "modify qos where name=high set Priority=10 Flags=denyonlimit MaxWallDurationPerJob=60",
        "add account research Cluster=c Description=research Organization=research Fairshare=1 Parent=root",
        "add account vision Cluster=c Description=vision Organization=x Fairshare=1 Parent=research GrpTRES=gres/gpu=4",
        "add user alice Account=vision Cluster=c Fairshare=1",
        "add user alice Account=research Cluster=c Fairshare=1",
        "modify user where name=alice set AdminLevel=Operator",
    ]


def test_matching_accounting_needs_no_command() -> None:
    assert plan(held(), "c", [RESEARCH], [ALICE], []) == []
    assert plan(held(), "C", [], [], []) == []


@pytest.mark.parametrize(
    ("shown", "declared", "words"),
    [
        ({}, {"MaxJobs": 2}, ["MaxJobs=2"]),
        ({"MaxJobs": "2"}, {"MaxJobs": 2}, None),
        ({"MaxJobs": "2"}, {}, ["MaxJobs=-1"]),
        ({"GrpTRES": "cpu=4,mem=10G"}, {"GrpTRES": "mem=10240,cpu=4"}, None),
        ({"GrpTRES": "cpu=4,gres/gpu=2"}, {"GrpTRES": "cpu=8"}, ["GrpTRES=cpu=8,gres/gpu=-1"]),
        ({"GrpTRES": "cpu=4"}, {}, ["GrpTRES=cpu=-1"]),
        ({"MaxWallDurationPerJob": "01:00:00"}, {"maxwall": 60}, None),
        ({"Fairshare": "5"}, {}, ["Fairshare=1"]),
        ({"DefaultQOS": "high", "QOS": "high,normal"}, {}, ["DefaultQOS=-1", "QosLevel="]),
    ],
)
def test_limits_of_a_user(shown: dict[str, str], declared: dict[str, Any], words: list[str] | None) -> None:
    commands = plan(held(qos=None, **shown), "c", [RESEARCH], [{**ALICE, "limits": declared}], [])
    where = ["modify", "user", "where", "name=alice", "cluster=c", "account=research", "set"]
    assert commands == ([] if words is None else [[*where, *words]])


def test_user_without_shares_is_unchanged() -> None:
    assert plan(held(qos=None, Fairshare="0"), "c", [RESEARCH], [{**ALICE, "fairshare": 0}], []) == []


@pytest.mark.parametrize(
    ("shown", "declared", "words"),
    [
        (HIGH, {}, None),
        (HIGH, {"priority": 5}, ["Priority=5"]),
        ({**HIGH, "MaxTRESPerUser": "cpu=2"}, {"limits": {"MaxTRESPU": "cpu=2"}}, None),
        ({**HIGH, "Flags": "DenyOnLimit,NoReserve"}, {"flags": ["NoReserve", "denyonlimit"]}, None),
        ({**HIGH, "Flags": "DenyOnLimit"}, {}, ["Flags=-1"]),
        ({**HIGH, "Preempt": "normal"}, {"preempt": ["normal"]}, None),
        ({**HIGH, "Preempt": "normal"}, {}, ["Preempt="]),
    ],
)
def test_qos(shown: dict[str, str], declared: dict[str, Any], words: list[str] | None) -> None:
    commands = plan(held(qos=shown), "c", [RESEARCH], [ALICE], [{"name": "high", **declared}])
    assert commands == ([] if words is None else [["modify", "qos", "where", "name=high", "set", *words]])


def test_user_is_moved_to_another_account() -> None:
    accounts = [RESEARCH, {"name": "vision"}]
    assert plan(held(), "c", accounts, [{"name": "alice", "accounts": ["vision"]}], [])[1:] == [
        ["add", "user", "alice", "Account=vision", "Cluster=c", "Fairshare=1"],
        ["modify", "user", "where", "name=alice", "cluster=c", "set", "DefaultAccount=vision"],
        ["delete", "user", "where", "name=alice", "cluster=c", "account=research"],
    ]


def test_removal_order_is_users_accounts_qos() -> None:
    absent = {"state": "absent"}
    commands = plan(held(), "c", [{**RESEARCH, **absent}], [{"name": "alice", **absent}], [{"name": "high", **absent}])
    assert commands == [
        ["delete", "user", "where", "name=alice"],
        ["delete", "account", "where", "name=research", "cluster=c"],
        ["delete", "qos", "where", "name=high"],
    ]
    empty = parse_state({"clusters": answer("clusters", {"Cluster": "c"})})
    assert plan(empty, "c", [{**RESEARCH, **absent}], [{"name": "alice", **absent}], []) == []


def test_partition_associations_are_ignored() -> None:
    rows = answer("associations", {"Account": "research", "User": "alice", "Partition": "batch", "MaxJobs": "1"})
    assert parse_state({"associations": rows})["associations"] == {}


@pytest.mark.parametrize(
    ("accounts", "users", "qos", "key", "says"),
    [
        ([RESEARCH, RESEARCH], [], [], "slurm_accounts[research]", "more than once"),
        ([], [{"name": "u"}], [], "users_accounts[u].slurm", "has no account"),
        ([], [{"name": "u", "accounts": ["x"]}], [], "users_accounts[u].slurm", "account x is not declared"),
        (
            [RESEARCH],
            [{**ALICE, "limits": {"MaxFun": 1}}],
            [],
            "users_accounts[alice].slurm",
            "unknown limit 'MaxFun'",
        ),
        (
            [{"name": "a", "parent": "b"}, {"name": "b", "parent": "a"}],
            [],
            [],
            "slurm_accounts",
            "accounts are parents of each other: a, b",
        ),
        ([], [], [{"name": "q", "limits": {"MaxFun": 1}}], "slurm_qos[q]", "unknown limit 'MaxFun'"),
    ],
)
def test_declaration_errors(
    accounts: list[dict[str, Any]], users: list[dict[str, Any]], qos: list[dict[str, Any]], key: str, says: str
) -> None:
    errors = declaration_errors(accounts, users, qos)
    assert [found for found, _ in errors] == [key]
    assert says in errors[0][1]
    with pytest.raises(ValueError, match="each other" if key == "slurm_accounts" else "users|accounts|qos"):
        plan(held(), "c", accounts, users, qos)


def test_limits_of_the_root_account_are_set() -> None:
    accounts: list[dict[str, Any]] = [{"name": "kid"}, {"name": "root", "limits": {"GrpTRES": "gres/gpu=8"}}]
    modified, added = plan(held(), "c", accounts, [], [])
    assert modified == ["modify", "account", "where", "name=root", "cluster=c", "set", "GrpTRES=gres/gpu=8"]
    assert added[:3] == ["add", "account", "kid"]


@pytest.mark.parametrize(
    ("key", "item", "says"),
    [
        ("accounts", {"name": "kid", "parent": "nope"}, r"slurm_accounts\[kid\]: parent nope does not exist"),
        ("accounts", {"name": "research", "qos": ["nope"]}, r"slurm_accounts\[research\]: QOS nope does not exist"),
        ("users", {**ALICE, "default_qos": "nope"}, r"users_accounts\[alice\].slurm: QOS nope does not exist"),
        ("qos", {"name": "low", "preempt": ["nope"]}, r"slurm_qos\[low\]: QOS nope does not exist"),
    ],
)
def test_references_to_missing_entries_are_refused_before_any_change(key: str, item: dict[str, Any], says: str) -> None:
    declared: dict[str, Any] = {"accounts": [RESEARCH], "users": [], "qos": [], key: [item]}
    with pytest.raises(ValueError, match=says):
        plan(held(), "c", **declared)


def test_references_to_removed_entries_are_refused() -> None:
    kid: dict[str, Any] = {"name": "kid", "parent": "research", "qos": ["high"]}
    with pytest.raises(ValueError, match=r"parent research does not exist.*QOS high does not exist"):
        plan(held(), "c", [kid, {**RESEARCH, "state": "absent"}], [], [{"name": "High", "state": "absent"}])


def test_entries_only_in_the_database_can_be_referenced() -> None:
    kid = {"name": "kid", "parent": "research", "qos": ["high"]}
    low = {"name": "low", "preempt": ["High"]}
    assert plan(held(), "c", [kid], [], [low])


def test_users_are_removed_before_others_are_added() -> None:
    users: list[dict[str, Any]] = [{"name": "alicia", "accounts": ["research"]}, {"name": "alice", "state": "absent"}]
    commands = plan(held(), "c", [RESEARCH], users, [])
    assert [words[:3] for words in commands] == [["delete", "user", "where"], ["add", "user", "alicia"]]
