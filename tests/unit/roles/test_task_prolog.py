"""Tests of the TaskProlog; with Pyxis it runs in the task's container, which may have only a shell."""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path

import pytest
import yaml
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar, trust_as_template
from ansible_collections.busbar.cluster.plugins.module_utils.containers.enroot_config import mount_lines

ROLES = Path(__file__).resolve().parents[3] / "roles"


def variables(role: str) -> dict[str, object]:
    return dict(yaml.safe_load((ROLES / role / "vars/main.yml").read_text(encoding="utf-8")))


def call(folder: Path, job: str, tmpdir: str = "yes") -> str:
    """Run the script as installed, without programs in PATH; return its output."""
    script = folder / "scratch_task_prolog"
    script.write_bytes((ROLES / "scratch/files/usr/local/lib/busbar/scratch_task_prolog").read_bytes())
    script.chmod(0o755)
    (folder / "scratch_jobs.conf").write_text(f"path={folder}/jobs\nmounted=no\nrequired=yes\ntmpdir={tmpdir}\n")
    environment = {"PATH": str(folder / "empty"), "SLURM_JOB_ID": job}
    done = subprocess.run([script], env=environment, capture_output=True, text=True, timeout=30, check=True)
    assert done.stderr == ""
    return done.stdout


def test_task_gets_its_directory(tmp_path: Path) -> None:
    directory = tmp_path / "jobs" / "41"
    directory.mkdir(parents=True)
    assert call(tmp_path, "41") == f"export SCRATCH={directory}\nexport TMPDIR={directory}\n"
    assert call(tmp_path, "41", tmpdir="no") == f"export SCRATCH={directory}\n"


@pytest.mark.parametrize("job", ["42", "", "../41", "41 x"])
def test_without_a_directory_nothing_is_reported(tmp_path: Path, job: str) -> None:
    (tmp_path / "jobs" / "41").mkdir(parents=True)
    assert call(tmp_path, job) == ""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_directory_of_another_user_is_not_printed() -> None:
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        folder.chmod(0o755)
        (folder / "jobs" / "41").mkdir(parents=True)
        (folder / "jobs" / "41").chmod(0o700)
        assert call(folder, "41") != ""
        command = ["setpriv", "--reuid=65534", "--clear-groups", "sh", str(folder / "scratch_task_prolog")]
        environment = {"SLURM_JOB_ID": "41", "PATH": os.environ["PATH"]}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        assert done.stdout == ""


@pytest.mark.parametrize(
    ("given", "mounted"),
    [
        ({}, []),
        ({"slurm_job_scripts": {"TaskProlog": "/opt/site/prolog"}}, ["/opt/site/prolog"]),
        ({"slurm_job_scripts": {"TaskProlog": ["/opt/a", "/opt/b"]}}, ["/opt/a", "/opt/b"]),
        ({"slurm_config": {"TaskProlog": "/opt/c"}}, ["/opt/c"]),
    ],
)
def test_containers_mount_the_task_prolog(given: dict[str, object], mounted: list[str]) -> None:
    enroot = variables("enroot")
    templar = Templar(loader=DataLoader(), variables={"__enroot_scripts": enroot["__enroot_scripts"], **given})
    files = templar.template(trust_as_template(enroot["__enroot_task_prolog"]))
    own = ["job_task_prolog", "scratch_task_prolog", "scratch_jobs.conf"]
    assert files == [f"/usr/local/lib/busbar/{name}" for name in own] + mounted


@pytest.mark.parametrize(
    ("version", "refused"),
    [
        ("slurm-wlm 24.11.5", True),
        ("slurm 24.11.0", True),
        ("slurm 25.05.1", True),
        ("slurm 24.11.7", False),
        ("slurm 25.05.2", False),
        ("slurm 25.05.10", False),
        ("slurm-wlm 22.05.8", False),
        ("slurm 23.11.4", False),
        ("slurm 124.11.5", False),
        ("", False),
    ],
)
def test_releases_of_slurm_without_support_are_refused(version: str, *, refused: bool) -> None:
    tasks = yaml.safe_load((ROLES / "slurm/tasks/task_prolog.yml").read_text(encoding="utf-8"))
    (task,) = (task for task in tasks if task["name"].startswith("task_prolog | Refuse a TaskProlog"))
    given = {"__slurm_slurmd_version": {"stdout": version}}
    templar = Templar(loader=DataLoader(), variables=given)
    assert templar.template(trust_as_template("{{ " + task["when"][0] + " }}")) is refused


@pytest.mark.parametrize(
    ("given", "asked"),
    [
        ({"pyxis_enabled": True, "slurm_job_scripts": {"TaskProlog": ["/a"]}}, True),
        ({"pyxis_enabled": True, "slurm_config": {"TaskProlog": "/a"}}, True),
        ({"pyxis_enabled": True}, False),
        ({"slurm_job_scripts": {"TaskProlog": ["/a"]}}, False),
    ],
)
def test_only_nodes_with_containers_and_a_task_prolog_are_checked(given: dict[str, object], *, asked: bool) -> None:
    base: dict[str, object] = {"slurm_job_scripts": {}, "slurm_config": {}}
    templar = Templar(loader=DataLoader(), variables=base | given)
    found = templar.template(trust_as_template(variables("slurm")["__slurm_container_task_prolog"]))
    assert found is asked


@pytest.mark.parametrize(
    ("given", "lines"),
    [
        ({}, []),
        ({"scratch_per_job": True}, ["/scratch /scratch none x-create=auto,rbind,nofail,silent"]),
        ({"scratch_per_job": True, "scratch_path": "/nvme"}, ["/nvme /nvme none x-create=auto,rbind,nofail,silent"]),
    ],
)
def test_host_without_scratch_starts_containers(given: dict[str, object], lines: list[str]) -> None:
    """Login nodes have Enroot, but no scratch."""
    defaults = yaml.safe_load((ROLES / "enroot/defaults/main.yml").read_text(encoding="utf-8"))
    mounts = Templar(loader=DataLoader(), variables=given).template(trust_as_template(defaults["enroot_mounts"]))
    assert mount_lines(mounts) == (lines, [])
