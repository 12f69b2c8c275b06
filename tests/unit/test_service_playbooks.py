"""The playbooks update_nodes and repair_nodes refuse invalid input before they change a node."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
import yaml
from ansible_collections.busbar.cluster.plugins.module_utils.slurm.busbar_drain_reasons import is_unfinished
from executables import executable
from plays import played
from templates import TOP

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.slow, pytest.mark.skipif(os.geteuid() != 0, reason="the playbooks become root")]

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


@pytest.mark.parametrize(
    ("reason", "replaced"),
    [
        ("busbar: repair", True),
        ("busbar: repair : Not responding", True),
        ("fan broken, Meyer", False),
        ("none", False),
    ],
)
def test_a_node_that_is_not_repaired_shows_why_unless_an_admin_drained_it(
    tmp_path: Path, reason: str, *, replaced: bool
) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    lines = "".join(f"echo '{node}|{reason}'\n" for node in ("gpu1", "gpu2"))
    executable(programs / "sinfo", f"#!/bin/sh\necho 'xgpu1|busbar: repair'\n{lines}")
    executable(programs / "scontrol", f'#!/bin/sh\necho "$@" >>{tmp_path}/asked\n')
    tasks = yaml.safe_load((TOP / "playbooks/tasks/repair_resume.yml").read_text(encoding="utf-8"))
    wanted = ("Find out who drained", "Restore the drain reason")
    play = [
        {
            "hosts": "gpu1",
            "gather_facts": False,
            "vars": {
                "__repair_nodes_controller": "gpu1",
                "__repair_nodes_reason": "busbar: repair",
                "__repair_nodes_done": True,
                "__service_problem": "Run the health check: 'disk | full'",
                "__repair_nodes_claimed": ["gpu2"],
                "__repair_nodes_lost": {"gpu2": "became unreachable: power it on"},
            },
            "tasks": [task for task in tasks if any(words in task["name"] for words in wanted)],
        }
    ]
    code, text = played(tmp_path, play, "gpu1", PATH=f"{programs}:{os.environ['PATH']}")
    assert code == 0, text
    asked = (tmp_path / "asked").read_text().splitlines() if (tmp_path / "asked").exists() else []
    failed = "Reason=busbar health: repair failed:"
    expected = [
        f"update NodeName=gpu1 {failed} Run the health check: 'disk full'",
        f"update NodeName=gpu2 {failed} became unreachable: power it on",
    ]
    assert asked == (expected if replaced else [])


def test_a_validation_does_not_resume_the_nodes_of_an_interrupted_run() -> None:
    reasons = [
        yaml.safe_load((TOP / f"playbooks/vars/{name}.yml").read_text(encoding="utf-8"))[f"__{name}_reason"]
        for name in ("update_nodes", "repair_nodes", "upgrade_slurm")
    ]
    (first, *_plays) = yaml.safe_load((TOP / "playbooks/replace_node.yml").read_text(encoding="utf-8"))
    drains = [task.get("busbar.cluster.slurm_drain") for task in first["tasks"]]
    reasons += [drain["reason"] for drain in drains if drain]
    assert [reason for reason in reasons if not is_unfinished(reason)] == []
    assert len(reasons) == 4
