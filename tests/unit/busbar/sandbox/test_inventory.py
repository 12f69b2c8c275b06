"""Tests of the inventory of a sandbox, which plain Ansible reads."""

from __future__ import annotations

import json
import re
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
from busbar.sandbox import state
from busbar.sandbox.inventory import hosts, site_variables, write_inventory
from busbar.sandbox.state import Sandbox

if TYPE_CHECKING:
    from pathlib import Path


def test_ansible_reads_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state, "sandbox_root", lambda: tmp_path)
    folder = write_inventory(Sandbox("demo", compute=3, gpus=1, subnet="10.209.7"), "ssh-ed25519 AAAA test")
    listed = subprocess.run(
        ["ansible-inventory", "-i", str(folder), "--list"], check=True, capture_output=True, text=True
    )
    data: dict[str, Any] = json.loads(listed.stdout)
    assert data["sandbox_gpu"]["hosts"] == ["gpu1", "gpu2", "gpu3"]
    assert data["slurm_controller"]["hosts"] == data["slurm_database"]["hosts"] == ["ctl"]
    variables = data["_meta"]["hostvars"]["gpu3"]
    assert variables["ansible_host"] == "10.209.7.23"
    assert variables["hardware"] == "sandbox_gpu"
    assert variables["hardware_profiles_extra"]["sandbox_gpu"]["gpu"] == {"count": 1, "device_files": "/dev/nvidia0"}
    assert "cluster_secrets_dir" not in variables, "what the sandbox does not say has its default in the collection"


@pytest.mark.parametrize(
    ("gpus", "gpu"),
    [
        (0, None),
        (1, {"count": 1, "device_files": "/dev/nvidia0"}),
        (4, {"count": 4, "device_files": "/dev/nvidia[0-3]"}),
    ],
)
def test_profile_depends_on_the_number_of_simulated_gpus(gpus: int, gpu: dict[str, Any] | None) -> None:
    variables = site_variables(Sandbox("demo", gpus=gpus, subnet="10.209.7"), "key")
    assert variables["hardware_profiles_extra"]["sandbox_gpu"]["gpu"] == gpu


def test_shared_tree_is_declared_as_a_bind_mount() -> None:
    variables = site_variables(Sandbox("demo", subnet="10.209.7"), "key")
    assert (variables["storage_backend"], variables["users_home_base"]) == ("bind", "/shared/home")
    assert {"nfs_server", "nfs_client"} <= hosts(Sandbox("demo", subnet="10.209.7"))["all"]["children"].keys()


def test_two_controllers_share_a_state_hidden_from_nodes() -> None:
    two = Sandbox("demo", controllers=2, subnet="10.209.7")
    groups = hosts(two)["all"]["children"]
    assert list(groups["slurm_controller"]["hosts"]) == ["ctl", "ctl2"]
    # On the primary, the database would be unreachable for the backup controller after a failover.
    assert list(groups["slurm_database"]["hosts"]) == ["login", "ctl2"]
    variables = site_variables(two, "key")
    assert (variables["slurm_state_directory"], variables["slurm_state_shared"]) == ("/state/slurmctld", True)
    assert not variables["slurm_state_directory"].startswith("/shared")
    assert "slurm_state_directory" not in site_variables(Sandbox("demo", subnet="10.209.7"), "key")


@pytest.fixture
def demo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Sandbox:
    """Return a sandbox whose inventory was written once."""
    monkeypatch.setattr(state, "sandbox_root", lambda: tmp_path)
    sandbox = Sandbox("demo", subnet="10.209.7")
    write_inventory(sandbox, "key")
    return sandbox


def test_files_of_the_user_are_kept(demo: Sandbox) -> None:
    folder = demo.path / "inventory"
    own = [folder / name for name in ("host_vars/gpu1.yml", "group_vars/sandbox_gpu.yml", "group_vars/all/zz_site.yml")]
    own.append(folder / "more_hosts.yml")
    for path in own:
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"# {path.name}\n")
    demo.compute = 3
    said: list[str] = []
    write_inventory(demo, "key", said.append)
    assert [path.read_text() for path in own] == [f"# {path.name}\n" for path in own]
    assert "gpu3" in (folder / "hosts.yml").read_text()
    assert said == []
    assert not list(folder.rglob("*.orig"))


@pytest.mark.parametrize("name", ["hosts.yml", "group_vars/all/zz_sandbox.yml"])
def test_changed_files_are_kept_as_a_copy_that_ansible_ignores(demo: Sandbox, name: str) -> None:
    path = demo.path / "inventory" / name
    written = path.read_text()
    for number in (1, 2):
        path.write_text(f"{written}mine_{number}: true\n")
        said: list[str] = []
        write_inventory(demo, "key", said.append)
        assert path.read_text() == written
        assert path.with_name(f"{path.name}.{number}.orig").read_text().endswith(f"mine_{number}: true\n")
        assert f"{path.name}.{number}.orig" in said[0]
    listed = subprocess.run(
        ["ansible-inventory", "-i", str(path.parents[0 if name == "hosts.yml" else 2]), "--list"],
        check=True,
        capture_output=True,
        text=True,
    )
    assert "mine_" not in listed.stdout


def test_named_file_overrides_the_variables_of_the_sandbox(demo: Sandbox) -> None:
    variables = demo.path / "inventory/group_vars/all"
    (name,) = re.findall(r"group_vars/all/(\w+\.yml)", (variables / "zz_sandbox.yml").read_text())
    (variables / name).write_text("cluster_name: mine\n")
    command = ["ansible-inventory", "-i", str(demo.path / "inventory"), "--host", "gpu1"]
    listed = subprocess.run(command, check=True, capture_output=True, text=True, cwd=demo.path)
    assert json.loads(listed.stdout)["cluster_name"] == "mine"
