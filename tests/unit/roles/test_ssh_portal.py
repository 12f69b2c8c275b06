"""Host-based logins of the portal's account are denied from the first run on, before its sudo rules exist."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from plays import played
from templates import TOP

if TYPE_CHECKING:
    from pathlib import Path

FOUND = {"groups": [], "user": "root"}


def test_account_of_the_portal_is_denied_in_each_run(tmp_path: Path) -> None:
    variables: dict[str, list[str]] = {"ssh_admin_users": [], "ssh_admin_groups": [], "ssh_hostbased_denied_users": []}
    shown = {"ansible.builtin.debug": {"msg": "{{ __ssh_hostbased_denied_users }}"}}
    files = [str(TOP / "roles/ssh/vars/main.yml")]
    play = {"hosts": "all", "gather_facts": False, "vars_files": files, "vars": variables, "tasks": [shown]}
    sudo_users = {"first_run": [], "second_run": ["jupyterhub"], "without_portal": []}
    hosts = {host: {"__ssh_host": {**FOUND, "sudo_users": users}} for host, users in sudo_users.items()}
    portal: dict[str, Any] = {"portal": {"hosts": {"first_run": {}, "second_run": {}}}}
    groups = {"hosts": hosts, "children": portal}
    code, said = played(tmp_path, [play], groups, ANSIBLE_STDOUT_CALLBACK="ansible.builtin.json")
    assert code == 0, said
    found = json.loads(said)["plays"][0]["tasks"][0]["hosts"]
    assert {host: found[host]["msg"] for host in hosts} == {
        "first_run": ["jupyterhub", "root"],
        "second_run": ["jupyterhub", "root"],
        "without_portal": ["root"],
    }
