"""The role dcgm goes by the driver that is on the host, and by none that it does not know."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from busbar.paths import collection

if TYPE_CHECKING:
    from pathlib import Path

PLAY = """
- hosts: localhost
  gather_facts: false
  tasks:
    - name: Run the role up to its packages
      ansible.builtin.include_role:
        name: busbar.cluster.dcgm
        tasks_from: dcgm
        public: true
    - name: Show the packages
      ansible.builtin.debug:
        msg: "packages: {{ __dcgm_names | join(' ') }}"
"""


def run(folder: Path, *options: str, driver: str = "", **variables: object) -> tuple[int, str]:
    """Run it on this machine, whose library of the driver is the one in the folder; nothing is installed."""
    library = folder / "libnvidia-ml.so.1"
    if driver:
        (folder / f"libnvidia-ml.so.{driver}").touch()
        library.symlink_to(f"libnvidia-ml.so.{driver}")
    (folder / "play.yml").write_text(PLAY)
    given = {
        "ansible_connection": "local",
        "ansible_python_interpreter": sys.executable,
        "__dcgm_hardware": {"gpu": {"model": "NVIDIA H100 80GB HBM3"}},
        "dcgm_proprietary": False,
        "__dcgm_library_paths": [str(folder / "absent.so.1"), str(library)],
        **variables,
    }
    command = ["ansible-playbook", "-i", "localhost,", "-e", json.dumps(given), *options, str(folder / "play.yml")]
    kept = {key: value for key, value in os.environ.items() if not key.startswith("ANSIBLE_")}
    environment = kept | {"ANSIBLE_CONFIG": str(collection() / "ansible.cfg"), "ANSIBLE_NOCOLOR": "1"}
    done = subprocess.run(
        command, check=False, capture_output=True, text=True, timeout=120, cwd=collection(), env=environment
    )
    return done.returncode, " ".join(f"{done.stdout}{done.stderr}".split())


def test_no_driver_is_refused_and_in_check_mode_waited_for(tmp_path: Path) -> None:
    status, said = run(tmp_path)
    assert status != 0
    assert "localhost: dcgm_driver_version: no driver is installed or declared" in said, said
    assert "dcgm_source: none" in said
    status, said = run(tmp_path, "--check")
    assert (status, "localhost: DCGM was skipped: no driver is installed" in said) == (0, True), said


@pytest.mark.parametrize(("driver", "major"), [("535.247.01", "cuda12"), ("580.95.05", "cuda13")])
def test_the_library_on_the_host_decides(tmp_path: Path, driver: str, major: str) -> None:
    options = ["--check", "--skip-tags", "dcgm"]
    _status, said = run(tmp_path, *options, driver=driver, nvidia_driver_branch="570")
    assert f"packages: datacenter-gpu-manager-4-core datacenter-gpu-manager-4-{major}" in said
