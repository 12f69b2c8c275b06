"""An inventory whose last controller is gone is refused before slurmd or sackd is told to ask nobody."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import yaml
from busbar.paths import collection

if TYPE_CHECKING:
    from pathlib import Path


def run(folder: Path, component: str) -> str:
    """Check mode of the role on this machine; what was told, in one line."""
    role = {"role": "busbar.cluster.slurm", "vars": {"slurm_components": [component]}}
    play = {"hosts": "gpu1", "gather_facts": False, "roles": [role]}
    (folder / "play.yml").write_text(yaml.safe_dump([play]))
    kept = {key: value for key, value in os.environ.items() if not key.startswith("ANSIBLE_")}
    environment = kept | {"ANSIBLE_CONFIG": str(collection() / "ansible.cfg"), "ANSIBLE_NOCOLOR": "1"}
    program = f"{sys.executable.rpartition('/')[0]}/ansible-playbook"
    given = ("-e", f"ansible_python_interpreter={sys.executable}", "-e", f"cluster_secrets_dir={folder}/secrets")
    command = [program, "-i", "gpu1,", "-c", "local", *given, "--check", "play.yml"]
    done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=folder, env=environment)
    assert done.returncode == 2, done.stdout
    return " ".join((done.stdout + done.stderr).split())


def test_a_compute_node_without_any_controller_is_refused(tmp_path: Path) -> None:
    said = run(tmp_path, "compute")
    assert "gpu1: slurm_controller: has no host, so slurmd and sackd have no controller to connect to" in said
    assert "remedy: add the host that runs slurmctld to the group slurm_controller" in said
    assert "changed=0" in said
