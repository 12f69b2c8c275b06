"""Who is a member of a host's NVLink rack, as the role nvidia_driver works it out for all hosts of a play."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import yaml
from busbar.paths import collection

PLAY = [
    {
        "hosts": "all",
        "gather_facts": False,
        "tasks": [
            {
                "name": "Run the role up to its refusal",
                "ansible.builtin.include_role": {"name": "busbar.cluster.nvidia_driver"},
            }
        ],
    }
]
RACK = {"hardware": "gb200_nvl72", "nvlink_domain": "rack1"}
HOSTS = {
    "t1": {**RACK, "ansible_host": "10.0.0.1"},
    "t2": {**RACK, "ansible_host": "10.0.0.2", "hosts_address": "tray2.site.org"},
    "u1": {**RACK, "nvlink_domain": "rack2", "ansible_host": "tray1.rack2.site.org"},
}


def test_members_are_those_of_the_hosts_own_rack(tmp_path: Path) -> None:
    """Of an address that is none each host of the rack is told, and of the next rack none: nothing is installed."""
    settings = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    inventory = {"all": {"children": {"slurm_compute": {"hosts": HOSTS}}, "vars": settings}}
    (tmp_path / "hosts.yml").write_text(yaml.safe_dump(inventory))
    (tmp_path / "play.yml").write_text(yaml.safe_dump(PLAY))
    kept = {key: value for key, value in os.environ.items() if not key.startswith("ANSIBLE_")}
    environment = kept | {"ANSIBLE_CONFIG": str(collection() / "ansible.cfg"), "ANSIBLE_NOCOLOR": "1"}
    # What a Debian host of theirs would say.
    system = {"distribution": "Debian", "major": "12", "container": False}
    known = json.dumps({"__nvidia_driver_required_facts": [], "__nvidia_driver_system": system})
    program = str(Path(sys.executable).with_name("ansible-playbook"))
    command = [program, "-i", "hosts.yml", "-e", known, "play.yml"]
    done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=tmp_path, env=environment)
    said = " ".join((done.stdout + done.stderr).split())
    for host, address in (("t1", "tray2.site.org"), ("t2", "tray2.site.org"), ("u1", "tray1.rack2.site.org")):
        assert f"{host}: nvidia_driver_imex_nodes: {address}: not an address" in said, said
    assert done.returncode == 2
