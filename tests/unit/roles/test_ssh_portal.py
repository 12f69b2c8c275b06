"""Host-based logins: the portal's account has sudo rules later in the run, so it is denied in the first one as well."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

TOP = Path(__file__).resolve().parents[3]
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
    (tmp_path / "play.yml").write_text(json.dumps([play]))
    (tmp_path / "hosts.yml").write_text(json.dumps({"all": {"hosts": {"login": {}}, "children": groups}}))
    command = [
        sys.executable,
        "-m",
        "ansible",
        "playbook",
        "-i",
        str(tmp_path / "hosts.yml"),
        str(tmp_path / "play.yml"),
    ]
    environment = {**os.environ, "ANSIBLE_STDOUT_CALLBACK": "ansible.builtin.json"}
    done = subprocess.run(command, check=False, cwd=TOP, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    users: list[str] = json.loads(done.stdout)["plays"][0]["tasks"][0]["hosts"]["login"]["msg"]
    return users


@pytest.mark.parametrize("sudo_users", [[], ["jupyterhub"]], ids=["first run", "second run"])
def test_the_account_of_the_portal_is_denied_in_each_run(tmp_path: Path, sudo_users: list[str]) -> None:
    assert denied(tmp_path, {"portal": {"hosts": {"login": {}}}}, sudo_users) == ["jupyterhub", "root"]


def test_a_host_without_the_portal_denies_no_such_account(tmp_path: Path) -> None:
    assert denied(tmp_path, {}, []) == ["root"]
