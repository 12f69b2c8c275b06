"""The inventory that a sandbox writes is one that plain Ansible reads."""

from __future__ import annotations

import json
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
    assert "dgx_h100" in variables["hardware_profiles"]


@pytest.mark.parametrize(
    ("gpus", "gpu"),
    [
        (0, None),
        (1, {"count": 1, "device_files": "/dev/nvidia0"}),
        (4, {"count": 4, "device_files": "/dev/nvidia[0-3]"}),
    ],
)
def test_profile_follows_the_number_of_simulated_gpus(gpus: int, gpu: dict[str, Any] | None) -> None:
    variables = site_variables(Sandbox("demo", gpus=gpus, subnet="10.209.7"), "key")
    assert variables["hardware_profiles_extra"]["sandbox_gpu"]["gpu"] == gpu


@pytest.mark.parametrize(("storage", "declared"), [("bind", "bind"), ("", None)])
def test_the_shared_tree_is_declared_as_what_it_is(storage: str, declared: str | None) -> None:
    variables = site_variables(Sandbox("demo", storage=storage, subnet="10.209.7"), "key")
    assert variables.get("storage_backend") == declared
    groups = hosts(Sandbox("demo", storage=storage, subnet="10.209.7"))["all"]["children"]
    assert ("nfs_server" in groups, "nfs_client" in groups) == (bool(storage), bool(storage))
