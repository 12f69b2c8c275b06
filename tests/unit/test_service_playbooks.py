"""The playbooks update_nodes and repair_nodes refuse invalid input before they change a node."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from executables import executable
from plays import played
from templates import TOP

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="the playbooks become root")

HOSTS = {
    "hosts": {"ctl": {}, "login": {}},
    "children": {
        "slurm_controller": {"hosts": {"ctl": {}}},
        "slurm_compute": {"hosts": {"gpu1": {}, "gpu2": {}}, "vars": {"validation_backend": "mpi"}},
    },
}


@pytest.mark.parametrize(
    ("playbook", "given", "said"),
    [
        ("update_nodes", {"update_nodes": "gpu9"}, "update_nodes: gpu9 is not a compute node of the inventory"),
        (
            "update_nodes",
            {"update_nodes": "gpu1", "update_nodes_validation": ["nope"]},
            "validation_stages: 'nope' is not one of storage, node,",
        ),
        (
            "update_nodes",
            {"update_nodes": "gpu1", "update_nodes_dry_run": True, "validation_max_bytes": "huge"},
            "validation_max_bytes: 'huge' is not a valid size",
        ),
        ("repair_nodes", {"repair_nodes": "gpu9"}, "repair_nodes: gpu9: not compute nodes of the inventory"),
        ("repair_nodes", {"repair_nodes_validation": ["nope"]}, "validation_stages: 'nope' is not one of storage,"),
    ],
)
def test_wrong_options_are_the_only_failure_and_no_node_is_drained(
    tmp_path: Path, playbook: str, given: dict[str, object], said: str
) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    reason = "busbar health: disk full" if playbook == "repair_nodes" else "none"
    state = "drained" if playbook == "repair_nodes" else "idle"
    executable(programs / "sinfo", f"#!/bin/sh\necho 'gpu1|{state}|{reason}'\necho 'gpu2|idle|none'\n")
    executable(programs / "squeue", "#!/bin/sh\n")
    executable(programs / "scontrol", f'#!/bin/sh\necho "$@" >>{tmp_path}/asked\n')
    play = [{"import_playbook": str(TOP / f"playbooks/{playbook}.yml")}]
    state_file = {"__update_nodes_file": str(tmp_path / "state.json"), "validation_reports_dir": str(tmp_path)}
    path = f"{programs}:{os.environ['PATH']}"
    code, text = played(tmp_path, play, HOSTS, given={**given, **state_file}, PATH=path)
    assert code == 2, text
    assert text.count("FAILED!") + text.count("[ERROR]: Task failed") <= 2, text
    assert said in text
    assert "has no attribute" not in text
    assert not (tmp_path / "asked").exists()
