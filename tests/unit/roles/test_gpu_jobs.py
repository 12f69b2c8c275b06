"""Tests of the program that records which job uses which GPU; slurmd runs it as prolog and epilog."""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest
from busbar.paths import collection
from executables import executable

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

PROGRAM = collection() / "roles/slurm/files/gpu_jobs"
SMI = """#!/bin/bash
[ "$1" = -q ] && cat "${0%/*}/q.txt" || cat "${0%/*}/list.txt"
"""
# GPU 0 has MIG instances, GPU 1 has none. Only the lines of nvidia-smi that the program reads.
SMI_Q = """
GPU 00000000:07:00.0
    MIG Device
        Index                                          : 0
        GPU Instance ID                                : 2
        Compute Instance ID                            : 0
    MIG Device
        Index                                          : 1
        GPU Instance ID                                : 9
        Compute Instance ID                            : 0
GPU 00000000:0F:00.0
    MIG Device                                         : None
"""
SMI_LIST = """GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-aaaa)
  MIG 3g.40gb     Device  0: (UUID: MIG-0001)
  MIG 1g.10gb     Device  1: (UUID: MIG-0002)
GPU 1: NVIDIA H100 80GB HBM3 (UUID: GPU-bbbb)
"""


class Node:
    """A node with the program under its three names."""

    def __init__(self, folder: Path) -> None:
        """Install the program in a folder; there are eight device files in the order of their minors."""
        self.scripts, self.jobs = folder / "scripts", folder / "jobs"
        self.scripts.mkdir()
        for name in ("prolog", "epilog", "clean"):
            shutil.copy(PROGRAM, self.scripts / f"gpu_jobs_{name}")
        self.configure()

    def configure(self, **settings: str) -> None:
        """Write gpu_jobs.conf."""
        given = {"directory": str(self.jobs), "proc": str(self.scripts / "gpus"), "numbers": "minor"}
        given |= {"devices": "/dev/nvidia[0-7]"} | settings
        text = "".join(f"{key}='{value}'\n" for key, value in given.items())
        (self.scripts / "gpu_jobs.conf").write_text(text, encoding="utf-8")

    def run(self, name: str, job: object = "", gpus: str = "", **environment: str) -> str:
        """Run the program as slurmd does; return its errors. It always exits with 0."""
        given = {"SLURM_JOB_ID": str(job), **({"SLURM_JOB_GPUS": gpus} if gpus else {}), **environment}
        command = ["bash", str(self.scripts / f"gpu_jobs_{name}")]
        done = subprocess.run(command, check=False, capture_output=True, text=True, env=given)
        assert done.returncode == 0
        return done.stderr

    def seen(self) -> dict[str, list[str]]:
        """Return the lines that dcgm-exporter reads, by the file that is named after a GPU."""
        found = self.jobs.glob("[0-9]*")
        return {path.name: path.read_text(encoding="utf-8").splitlines() for path in sorted(found)}


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def test_job_is_recorded_with_its_gpus_and_removed_at_its_end(node: Node) -> None:
    node.run("prolog", 12, "0,2-3")
    assert node.seen() == {"0": ["12"], "2": ["12"], "3": ["12"]}
    node.run("epilog", 12, "0,2-3")
    # One empty line: older exporters omit a GPU whose file has no line.
    assert node.seen() == {"0": [""], "2": [""], "3": [""]}


def test_all_jobs_of_a_shared_gpu_are_recorded(node: Node) -> None:
    node.run("prolog", 12, "0")
    node.run("prolog", 9, "0,1")
    assert node.seen() == {"0": ["12", "9"], "1": ["9"]}
    node.run("epilog", 12)
    assert node.seen() == {"0": ["9"], "1": ["9"]}


def test_second_prolog_of_a_job_adds_no_record(node: Node) -> None:
    node.run("prolog", 12, "0")
    node.run("prolog", 12, "1")
    assert node.seen() == {"0": [""], "1": ["12"]}


def test_jobs_without_gpus_are_not_recorded(node: Node) -> None:
    assert node.run("prolog", 12) == ""
    assert node.run("epilog", 12) == ""
    assert not node.jobs.exists()


@pytest.mark.parametrize("job", ["", "../../etc", "12;x", "-1"])
def test_invalid_job_ids_are_ignored(node: Node, job: str) -> None:
    node.run("prolog", job, "0")
    node.run("epilog", job, "0")
    assert not node.jobs.exists()


def test_prolog_succeeds_if_the_directory_cannot_be_created(node: Node) -> None:
    node.configure(directory="/proc/busbar")
    node.run("prolog", 12, "0")
    node.run("epilog", 12, "0")


def test_users_cannot_write_to_the_directory(node: Node) -> None:
    node.run("prolog", 12, "0")
    modes = [path.stat().st_mode & 0o777 for path in (node.jobs, node.jobs / "jobs", node.jobs / "0")]
    assert modes == [0o755, 0o755, 0o644]


def test_concurrent_prologs_lose_no_record(node: Node) -> None:
    environment = {**os.environ, "SLURM_JOB_GPUS": "0"}
    command = ["bash", str(node.scripts / "gpu_jobs_prolog")]
    jobs = [subprocess.Popen(command, env={**environment, "SLURM_JOB_ID": str(job)}) for job in range(100, 112)]
    assert [job.wait() for job in jobs] == [0] * 12
    assert node.seen() == {"0": [str(job) for job in range(100, 112)]}


def test_job_that_ended_without_an_epilog_is_removed(node: Node) -> None:
    node.run("prolog", 12, "0")
    old = node.jobs / "jobs" / "12"
    os.utime(old, (0, 0))
    said = node.run("prolog", 13, "0")
    assert "job 12 ended without an epilog" in said
    assert node.seen() == {"0": ["13"]}


def test_record_of_a_running_job_is_kept(node: Node) -> None:
    node.run("prolog", 12, "0")
    os.utime(node.jobs / "jobs" / "12", (0, 0))
    step = subprocess.Popen(["bash", "-c", "exec -a 'slurmstepd: [12.extern]' sleep 60"])
    try:
        node.run("clean")
        assert node.seen() == {"0": ["12"]}
    finally:
        step.kill()
        step.wait()
    node.run("clean")
    assert node.seen() == {"0": [""]}


def minors(node: Node, by_address: Mapping[str, int]) -> None:
    """Write the driver's minor numbers of GPUs by PCI address."""
    for address, minor in by_address.items():
        place = node.scripts / "gpus" / address
        place.mkdir(parents=True)
        text = f"Model: \t\t NVIDIA H100\nDevice Minor: \t {minor}\nGPU Firmware: \t 1\n"
        (place / "information").write_text(text, encoding="utf-8")


def test_numbers_of_device_files_are_mapped_to_those_of_dcgm(node: Node) -> None:
    minors(node, {"0000:07:00.0": 2, "0000:0f:00.0": 3, "0000:47:00.0": 0, "0000:b7:00.0": 12})
    node.configure(devices="/dev/nvidia[0,2-3,12]")
    node.run("prolog", 12, "0,2")
    # Positions 0 and 2 are nvidia0 and nvidia3, the third and second GPU by PCI address.
    assert sorted(node.seen()) == ["1", "2"]


def test_gpus_detected_by_nvml_have_the_numbers_of_dcgm(node: Node) -> None:
    minors(node, {"0000:07:00.0": 2, "0000:0f:00.0": 3})
    node.configure(numbers="nvml")
    node.run("prolog", 12, "1")
    assert sorted(node.seen()) == ["1"]


@pytest.mark.parametrize(
    ("gpus", "visible", "places", "wanted"),
    [
        ("0", "", "0 1 2", ["0.2"]),
        ("1,2", "", "0 1 2", ["0.9", "1"]),
        # Slurm numbers the small instance first if its type comes first in slurm.conf.
        ("0", "", "1 0 2", ["0.9"]),
        ("1-2", "", "1 0 2", ["0.2", "1"]),
        ("0", "", "", ["0.2"]),
        ("0", "MIG-0002", "", ["0.9"]),
        ("0,1", "MIG-0001,GPU-bbbb", "", ["0.2", "1"]),
    ],
)
def test_mig_instances_are_distinguished(node: Node, gpus: str, visible: str, places: str, wanted: list[str]) -> None:
    folder = node.scripts / "bin"
    folder.mkdir()
    for name, text in {"nvidia-smi": SMI, "q.txt": SMI_Q, "list.txt": SMI_LIST}.items():
        executable(folder / name, text)
    node.configure(mig="yes", places=places)
    with (node.scripts / "gpu_jobs.conf").open("a", encoding="utf-8") as stream:
        stream.write(f"PATH={folder}:$PATH\n")
    node.run("prolog", 12, gpus, **({"CUDA_VISIBLE_DEVICES": visible} if visible else {}))
    assert sorted(node.seen()) == wanted


def test_job_with_mig_starts_without_nvidia_smi(node: Node) -> None:
    node.configure(mig="yes")
    assert "the DCGM GPUs of SLURM_JOB_GPUS=0 are unknown" in node.run("prolog", 12, "0")
    assert node.seen() == {}
