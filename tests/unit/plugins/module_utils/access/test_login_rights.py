"""Tests of which users are admins, according to the declaration and the sudo rules of a host."""

from __future__ import annotations

import json
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest
from ansible_collections.busbar.cluster.plugins.filter.login_rights import login_rights
from ansible_collections.busbar.cluster.plugins.modules.ssh_host_info import sudo_holders

if TYPE_CHECKING:
    from pathlib import Path


def test_declared_accounts_are_classified_by_their_rights() -> None:
    users: list[dict[str, object]] = [
        {"name": "alice", "uid": 1, "group": "research", "groups": ["docker"], "slurm": {"account": "ml"}},
        {"name": "carol", "uid": 2, "sudo": ["ALL=(ALL) ALL"]},
        {"name": "dave", "uid": 3, "groups": ["admins"]},
        {"name": "erin", "uid": 4, "group": "admins"},
        {"name": "frank", "slurm": {"account": "ml"}},
        {"name": "gone", "state": "absent"},
        {"name": "root"},
    ]
    groups: list[dict[str, object]] = [
        {"name": "research"},
        {"name": "admins", "sudo": ["ALL=(ALL) ALL"]},
        {"name": "old", "state": "absent"},
    ]
    assert login_rights(users, groups) == {
        "admin_users": ["carol"],
        "admin_groups": ["admins"],
        "plain_users": ["alice"],
        "slurm_users": [
            {"name": "alice", "accounts": ["ml"]},
            {"name": "frank", "accounts": ["ml"]},
            {"name": "gone", "state": "absent"},
        ],
    }


SUDOERS = """\
User_Alias OPS = ubuntu, dave
root ALL=(ALL:ALL) ALL
%sudo ALL=(ALL:ALL) ALL
%#27 ALL=(ALL) ALL
OPS ALL=(ALL) NOPASSWD: ALL
#1001 ALL=(root) /usr/bin/true
ALL, !bob ALL=(root) /usr/bin/uptime
"""


@pytest.mark.skipif(
    shutil.which("cvtsudoers") is None, reason="cvtsudoers comes with sudo, which is not installed here"
)
def test_sudo_rules_are_read_with_cvtsudoers(tmp_path: Path) -> None:
    path = tmp_path / "sudoers"
    path.write_text(SUDOERS)
    done = subprocess.run(["cvtsudoers", "-e", "-f", "json", str(path)], check=True, capture_output=True, text=True)
    assert sudo_holders(done.stdout) == {"users": ["#1001", "dave", "root", "ubuntu"], "groups": ["#27", "sudo"]}


def test_sudo_rules_are_parsed_from_json() -> None:
    users = [{"username": "ubuntu"}, {"usergroup": "sudo"}, {"username": "ALL"}, {"username": "bob", "negated": True}]
    numbers = [{"userid": 1001}, {"usergid": 27}]
    text = json.dumps({"Defaults": [], "User_Specs": [{"User_List": users}, {"User_List": numbers}]})
    assert sudo_holders(text) == {"users": ["#1001", "ubuntu"], "groups": ["#27", "sudo"]}
    assert sudo_holders("{}") == {"users": [], "groups": []}


@pytest.mark.parametrize("text", ["", "[]", "no JSON"])
def test_invalid_answer_is_not_an_empty_list(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        sudo_holders(text)
