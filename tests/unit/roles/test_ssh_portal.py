"""Host-based logins: the portal's account has sudo rules later in the run, so it is denied in the first one as well."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from plays import played
from templates import TOP

if TYPE_CHECKING:
    from pathlib import Path

FOUND = {"groups": [], "user": "root"}


def denied(tmp_path: Path, groups: dict[str, Any], sudo_users: list[str]) -> list[str]:
    """The users whom the host `login` denies host-based logins."""
    variables = {
        "__ssh_host": {**FOUND, "sudo_users": sudo_users},
        "ssh_admin_users": [],
        "ssh_admin_groups": [],
        "ssh_hostbased_denied_users": [],
    }
    shown = {"ansible.builtin.debug": {"msg": "{{ __ssh_hostbased_denied_users }}"}}
    files = [str(TOP / "roles/ssh/vars/main.yml")]
    play = {"hosts": "login", "gather_facts": False, "vars_files": files, "vars": variables, "tasks": [shown]}
    hosts = {"hosts": {"login": {}}, "children": groups}
    code, said = played(tmp_path, [play], hosts, ANSIBLE_STDOUT_CALLBACK="ansible.builtin.json")
    assert code == 0, said
    users: list[str] = json.loads(said)["plays"][0]["tasks"][0]["hosts"]["login"]["msg"]
    return users


@pytest.mark.parametrize("sudo_users", [[], ["jupyterhub"]], ids=["first run", "second run"])
def test_the_account_of_the_portal_is_denied_in_each_run(tmp_path: Path, sudo_users: list[str]) -> None:
    assert denied(tmp_path, {"portal": {"hosts": {"login": {}}}}, sudo_users) == ["jupyterhub", "root"]


def test_a_host_without_the_portal_denies_no_such_account(tmp_path: Path) -> None:
    assert denied(tmp_path, {}, []) == ["root"]
