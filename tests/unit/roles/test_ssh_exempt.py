"""Whom a server of OpenSSH 9.8 or newer exempts from penalties: declared networks, and the addresses beside them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

TOP = Path(__file__).resolve().parents[3]
HOSTS = {
    "gpu9": {"hosts_address": "10.0.0.9"},
    "gpu1": {"ansible_host": "10.0.0.1"},
    "far": {"ansible_host": "192.0.2.7"},
    "by-name.example": {},
}


@pytest.mark.parametrize(
    ("given", "exempt", "named"),
    [
        ({}, ["10.0.0.1", "10.0.0.9", "192.0.2.7"], True),
        ({"cluster_networks": ["10.0.0.0/24"]}, ["10.0.0.0/24", "192.0.2.7"], True),
        ({"cluster_networks": ["10.0.0.0/24", "192.0.2.0/24"]}, ["10.0.0.0/24", "192.0.2.0/24"], False),
    ],
)
def test_a_host_more_in_a_declared_network_changes_nothing(
    given: dict[str, Any], exempt: list[str], tmp_path: Path, *, named: bool
) -> None:
    tasks = yaml.safe_load((TOP / "roles/ssh/tasks/keys.yml").read_text(encoding="utf-8"))
    task = next(task for task in tasks if "all hosts share" in task["name"])
    shared = task["ansible.builtin.set_fact"]["__ssh_shared"]
    shown = {"msg": {key: shared[key] for key in ("addresses", "names_addresses")}}
    variables = {**task["vars"], **given, "__ssh_cluster": list(HOSTS), "__ssh_domain": ""}
    play = {"hosts": "gpu1", "gather_facts": False, "vars": variables, "tasks": [{"ansible.builtin.debug": shown}]}
    (tmp_path / "play.yml").write_text(json.dumps([play]))
    (tmp_path / "hosts.yml").write_text(json.dumps({"all": {"hosts": HOSTS}}))
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
    assert json.loads(done.stdout)["plays"][0]["tasks"][0]["hosts"]["gpu1"]["msg"] == {
        "addresses": exempt,
        "names_addresses": named,
    }
