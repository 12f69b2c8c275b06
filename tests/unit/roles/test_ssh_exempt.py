"""Tests of addresses that OpenSSH 9.8 or newer exempts from penalties: declared networks, and hosts outside them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import yaml
from plays import played
from templates import TOP

if TYPE_CHECKING:
    from pathlib import Path

HOSTS = {
    "gpu9": {"hosts_address": "10.0.0.9"},
    "gpu1": {"ansible_host": "10.0.0.1"},
    "far": {"ansible_host": "192.0.2.7"},
    "by-name.example": {},
}


CASES: list[tuple[dict[str, Any], list[str], bool]] = [
    ({}, ["10.0.0.1", "10.0.0.9", "192.0.2.7"], True),
    ({"cluster_networks": ["10.0.0.0/24"]}, ["10.0.0.0/24", "192.0.2.7"], True),
    ({"cluster_networks": ["10.0.0.0/24", "192.0.2.0/24"]}, ["10.0.0.0/24", "192.0.2.0/24"], False),
]


def test_additional_host_in_a_declared_network_changes_nothing(tmp_path: Path) -> None:
    tasks = yaml.safe_load((TOP / "roles/ssh/tasks/keys.yml").read_text(encoding="utf-8"))
    task = next(task for task in tasks if "all hosts share" in task["name"])
    shared = task["ansible.builtin.set_fact"]["__ssh_shared"]
    shown = {"msg": {key: shared[key] for key in ("addresses", "names_addresses")}}
    variables = {**task["vars"], "__ssh_cluster": list(HOSTS), "__ssh_domain": ""}
    play = {"hosts": "gpu1", "gather_facts": False, "tasks": [{"ansible.builtin.debug": shown}]}
    plays = [{**play, "vars": {**variables, **given}} for given, _, _ in CASES]
    code, said = played(tmp_path, plays, {"hosts": HOSTS}, ANSIBLE_STDOUT_CALLBACK="ansible.builtin.json")
    assert code == 0, said
    found = [play["tasks"][0]["hosts"]["gpu1"]["msg"] for play in json.loads(said)["plays"]]
    assert found == [{"addresses": exempt, "names_addresses": named} for _, exempt, named in CASES]
