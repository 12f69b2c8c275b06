"""The role's own task file checks the options of a validation before any host is changed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from plays import play_of, played

pytestmark = pytest.mark.slow

TOP = Path(__file__).resolve().parents[3]


def checked(folder: Path, **changes: Any) -> tuple[int, str]:  # noqa: ANN401 - any option
    """Check the options of a site of two nodes; return the exit code and the output."""
    groups: dict[str, Any] = {
        "slurm_controller": {"hosts": {"ctl": {}}},
        "slurm_compute": {"hosts": {"gpu1": {}, "gpu2": {}}},
    }
    given = {"hardware": "dgx_h100", "validation_backend": "mpi", "validation_floor_gbs": 1, **changes}
    play = play_of("validation", "options", hosts="slurm_compute")
    return played(folder, play, {"children": groups, "vars": given})


def test_valid_options_pass(tmp_path: Path) -> None:
    code, said = checked(tmp_path, validation_pool="gpu1, gpu2")
    assert code == 0, said


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {"validation_pool": ["gpu1", "gpu2", "gpu7"]},
            "gpu7: validation_pool: is not in the inventory remedy: correct the name, or add the host to the inventory",
        ),
        ({"validation_backend": "nccl"}, "validation_backend: nccl needs validation_binary"),
        ({"validation_resume": "some", "validation_qos": "a b"}, "validation_resume: 'some' is not one of"),
    ],
)
def test_invalid_options_are_reported_with_a_remedy(tmp_path: Path, changes: dict[str, Any], words: str) -> None:
    code, said = checked(tmp_path, **changes)
    assert (code, words in said) == (2, True), said


OWN = {
    "hardware_profiles_extra": {
        "l40s_4": {
            "sockets": 2,
            "cores_per_socket": 32,
            "threads_per_core": 1,
            "memory_mb": 500000,
            "gpu": {
                "model": "NVIDIA L40S",
                "generation": "ada",
                "count": 4,
                "slurm_type": "l40s",
                "device_files": "/dev/nvidia[0-3]",
                "memory_mb": 46068,
                "nvlink_gbs": 0,
            },
            "nics": [{"count": 1, "gbps": 100, "rdma": True}],
            "busbw": {},
        }
    },
    "hardware": "l40s_4",
    "validation_backend": "nccl",
    "validation_binary": "/opt/all_reduce_perf",
    "validation_collectives": ["all_reduce", "alltoall"],
}


def test_missing_floor_is_reported_before_anything_runs(tmp_path: Path) -> None:
    code, said = checked(tmp_path, **OWN, validation_floor_gbs=0)
    assert code == 0, said
    for words in (
        "all_reduce on one node of l40s_4",
        "alltoall on all 2 nodes",
        "validation_floor_gbs",
        "INCONCLUSIVE",
    ):
        assert words in said
    code, said = checked(tmp_path, **OWN, validation_floor_gbs={"all_reduce": 10, "alltoall": 5})
    assert (code, "INCONCLUSIVE" in said) == (0, False), said


def test_options_of_a_site_are_checked_before_its_first_role() -> None:
    preflight = yaml.safe_load((TOP / "playbooks/preflight.yml").read_text(encoding="utf-8"))
    files = [task.get("ansible.builtin.import_role") for play in preflight for task in play.get("tasks", [])]
    assert {"name": "busbar.cluster.validation", "tasks_from": "options"} in files
    for playbook, first in (("site", "configure"), ("configure", "preflight")):
        plays = yaml.safe_load((TOP / f"playbooks/{playbook}.yml").read_text(encoding="utf-8"))
        assert plays[0]["ansible.builtin.import_playbook"] == f"busbar.cluster.{first}"


def needed(**changes: Any) -> list[str]:  # noqa: ANN401 - any option
    """Return the collectives whose programs must be installed on the nodes."""
    from ansible.parsing.dataloader import DataLoader  # noqa: PLC0415 - slow
    from ansible.template import Templar  # noqa: PLC0415

    role = TOP / "roles" / "validation"
    variables: dict[str, Any] = {}
    for name in ("defaults", "vars"):
        variables |= DataLoader().load_from_file(str(role / name / "main.yml"), trusted_as_template=True)
    wanted = {"validation_stages": ["node", "cluster"], "validation_storage_path": "", **changes}
    return list(
        Templar(loader=DataLoader(), variables=variables | wanted).template(
            variables["__validation_needed_collectives"]
        )
    )


def test_automatic_search_needs_the_program_of_its_collective() -> None:
    assert needed() == ["all_reduce", "alltoall"]
    assert needed(validation_search_collective="all_reduce") == ["all_reduce"]
    assert needed(validation_locate_rounds=0) == ["all_reduce"]
    assert needed(validation_stages=["node"]) == ["all_reduce"]
