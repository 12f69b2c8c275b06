"""Tests that sites with the removed option `slurm_users` get the replacing entries of users_accounts."""

from __future__ import annotations

from typing import Any

import yaml
from ansible_collections.busbar.cluster.plugins.module_utils.access.account_problems import account_problems
from ansible_collections.busbar.cluster.plugins.module_utils.access.accounts import slurm_users
from ansible_collections.busbar.cluster.plugins.plugin_utils.preflight.options import Setting
from ansible_collections.busbar.cluster.roles.users.checks import former_users_problems

ACCOUNTS: list[dict[str, Any]] = [
    {"name": "alice", "uid": 2001, "comment": "Älice #1", "password_hash": "{{ vault_alice }}"},
    {"name": "bob", "uid": 2002, "password_hash": "$6$secret"},
    {"name": "old", "state": "absent"},
    {"name": "carol", "uid": 2003},
    {"name": "moved", "uid": 2004, "state": "absent"},
]
USERS: list[dict[str, Any]] = [
    {
        "name": "alice",
        "accounts": ["b", "a"],
        "default_account": "a",
        "limits": {"MaxJobs": 4},
        "admin_level": "Operator",
    },
    {"name": "bob", "accounts": ["b"], "admin_level": "None", "qos": ["normal"]},
    {"name": "old", "state": "absent"},
    {"name": "carol", "state": "absent"},
    {"name": "moved", "accounts": ["a"]},
    {"name": "erin", "accounts": ["a"]},
]


def pasted(*settings: Setting, **values: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the entries that the message prints."""
    (problem,) = former_users_problems(settings, values)
    assert problem["key"] == "slurm_users"
    assert settings[-1].place in problem["problem"]
    data: dict[str, list[dict[str, Any]]] = yaml.safe_load(problem["remedy"].partition("\n")[2])
    assert list(data) == ["users_accounts"]
    return data["users_accounts"]


def test_entries_are_merged_with_the_accounts() -> None:
    users = Setting("slurm_users", USERS, "group all", place="slurm.yml:3")
    entries = pasted(Setting("users_accounts", ACCOUNTS, "group all"), users)
    assert entries[0] == {
        **ACCOUNTS[0],
        "slurm": {"account": "a", "accounts": ["b"], "admin": "Operator", "limits": {"MaxJobs": 4}},
    }
    assert entries[-1] == {"name": "erin", "slurm": {"account": "a"}}
    # A hash is not printed, and its placeholder is not accepted.
    assert [each["key"] for each in account_problems(entries[1:2], [])] == ["users_accounts[bob].password_hash"]
    assert slurm_users(entries) == [
        {"name": "alice", "accounts": ["a", "b"], "admin": "Operator", "limits": {"MaxJobs": 4}},
        {"name": "bob", "accounts": ["b"], "qos": ["normal"]},
        {"name": "old", "state": "absent"},
        {"name": "carol", "state": "absent"},
        {"name": "moved", "accounts": ["a"]},
        {"name": "erin", "accounts": ["a"]},
    ]
    assert "uid" not in next(entry for entry in entries if entry["name"] == "moved")


def test_user_absent_from_accounting_gets_a_valid_entry() -> None:
    entries = pasted(Setting("slurm_users", [{"name": "gone", "state": "absent"}], "group all"), users_accounts=[])
    assert entries == [{"name": "gone", "slurm": {"state": "absent"}}]
    assert slurm_users(entries) == [{"name": "gone", "state": "absent"}]
    assert account_problems(entries, []) == []


def test_templates_and_lists_in_several_places_are_evaluated() -> None:
    users = Setting("slurm_users", "{{ a + b }}", "-e")
    places = [Setting("users_accounts", ACCOUNTS[:1], "group all"), Setting("users_accounts", [], "group x")]
    assert pasted(*places, users, users_accounts=ACCOUNTS[3:4], slurm_users=USERS[5:]) == [
        ACCOUNTS[3],
        {"name": "erin", "slurm": {"account": "a"}},
    ]


def test_site_without_the_option_has_no_problem() -> None:
    assert former_users_problems([Setting("users_accounts", ACCOUNTS, "group all")], {}) == []
