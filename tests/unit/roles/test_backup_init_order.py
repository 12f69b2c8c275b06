"""Two hosts that come at once make one repository: the other one waits, since restic would let both make one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import yaml

TOP = Path(__file__).resolve().parents[3]
# As busbar-backup does: look, and make it where there is none. A second one inside is an error here: restic's second
# repository replaces the `config` of the first one, so that no key opens the data any more.
PROGRAM = """#!/bin/sh
mkdir FOLDER/inside || { echo 'two at once' >&2; exit 1; }
test -e FOLDER/config && made=false || made=true
sleep 0.5
touch FOLDER/config
rmdir FOLDER/inside
echo "{\\"changed\\": $made}"
"""


def test_hosts_make_the_repository_one_after_the_other(tmp_path: Path) -> None:
    tasks = yaml.safe_load((TOP / "roles/backup/tasks/present.yml").read_text())
    (task,) = (each for each in tasks if each["name"].endswith("Create a missing repository"))
    program = tmp_path / "busbar-backup"
    program.write_text(PROGRAM.replace("FOLDER", str(tmp_path)))
    program.chmod(0o755)
    command = task["ansible.builtin.command"]
    command["argv"] = command["argv"].replace("/usr/local/sbin/busbar-backup", str(program))
    local = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    hosts = {"all": {"vars": local, "hosts": dict.fromkeys(["ctl", "db1", "mon"])}}
    (tmp_path / "hosts.yml").write_text(yaml.safe_dump(hosts))
    (tmp_path / "play.yml").write_text(yaml.safe_dump([{"hosts": "all", "gather_facts": False, "tasks": [task]}]))
    done = subprocess.run(
        [
            *(str(Path(sys.executable).with_name("ansible-playbook")), "-i", "hosts.yml", "play.yml"),
            *("-e", json.dumps({"backup_new_repository": False})),
        ],
        check=False,
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=os.environ | {"ANSIBLE_CONFIG": str(TOP / "ansible.cfg"), "ANSIBLE_NOCOLOR": "1"},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("changed: [") == 1, done.stdout
