"""An inventory without a controller is refused before slurmd or sackd is configured."""

from __future__ import annotations

from typing import TYPE_CHECKING

from plays import played

if TYPE_CHECKING:
    from pathlib import Path


def test_compute_node_without_a_controller_is_refused(tmp_path: Path) -> None:
    role = {"role": "busbar.cluster.slurm", "vars": {"slurm_components": ["compute"]}}
    play = {"hosts": "gpu1", "gather_facts": False, "roles": [role]}
    code, said = played(tmp_path, [play], "gpu1", "--check", given={"cluster_secrets_dir": f"{tmp_path}/secrets"})
    assert code == 2, said
    assert "gpu1: slurm_controller: has no host, so slurmd and sackd have no controller to connect to" in said
    assert "remedy: add the host that runs slurmctld to the group slurm_controller" in said
    assert "changed=0" in said
