"""Hosts that initialize one repository concurrently take turns; restic itself allows both to create it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import yaml
from executables import executable
from plays import played
from templates import TOP

if TYPE_CHECKING:
    from pathlib import Path

# Checks and creates the repository as busbar-backup does. A second creation at the same time is an error here: restic's
# second repository replaces the `config` of the first, so that no key opens the data any more.
PROGRAM = """#!/bin/sh
mkdir FOLDER/inside || { echo 'two at once' >&2; exit 1; }
test -e FOLDER/config && made=false || made=true
sleep 0.5
touch FOLDER/config
rmdir FOLDER/inside
echo "{\\"changed\\": $made}"
"""


def test_hosts_create_the_repository_one_after_the_other(tmp_path: Path) -> None:
    tasks = yaml.safe_load((TOP / "roles/backup/tasks/present.yml").read_text())
    (task,) = (each for each in tasks if each["name"].endswith("Create a missing repository"))
    program = tmp_path / "busbar-backup"
    executable(program, PROGRAM.replace("FOLDER", str(tmp_path)))
    command = task["ansible.builtin.command"]
    command["argv"] = command["argv"].replace("/usr/local/sbin/busbar-backup", str(program))
    play = [{"hosts": "all", "gather_facts": False, "tasks": [task]}]
    hosts = {"hosts": dict.fromkeys(["ctl", "db1", "mon"])}
    code, said = played(tmp_path, play, hosts, given={"backup_new_repository": False})
    assert code == 0, said
    assert said.count("changed: [") == 1, said
