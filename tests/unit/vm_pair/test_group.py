"""Tests of the requirements of virtual machines on their host, and of their inventory."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING

import pytest
from busbar.errors import UsageError
from busbar.sandbox import state as sandbox_state
from vm_pair import group as vm_group
from vm_pair import image
from vm_pair.inventory import write_inventory
from vm_pair.state import Group

if TYPE_CHECKING:
    from pathlib import Path


def test_missing_tools_are_reported_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 0)
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    monkeypatch.setattr("shutil.which", lambda *_, **__: None)
    with pytest.raises(UsageError, match=r"e2fsprogs mmdebstrap .*qemu-system-x86 qemu-utils: run scripts/setup --vm"):
        vm_group.check_host()


@pytest.mark.parametrize(("user", "machine", "reason"), [(1000, "x86_64", "sudo"), (0, "aarch64", "found aarch64")])
def test_unsupported_hosts_are_refused(monkeypatch: pytest.MonkeyPatch, user: int, machine: str, reason: str) -> None:
    monkeypatch.setattr("os.geteuid", lambda: user)
    monkeypatch.setattr("platform.machine", lambda: machine)
    with pytest.raises(UsageError, match=reason):
        vm_group.check_host()


def test_changed_recipe_gives_a_new_image(monkeypatch: pytest.MonkeyPatch) -> None:
    before = image.digest()
    assert image.digest() == before
    monkeypatch.setattr(image, "ROLE_PACKAGES", [*image.ROLE_PACKAGES, "fio"])
    assert image.digest() != before


def test_ansible_reads_the_inventory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox_state, "sandbox_root", lambda: tmp_path)
    group = Group("demo", "tcg", {"nfs1": 2201, "client1": 2202})
    write_inventory(group)
    listed = subprocess.run(
        ["ansible-inventory", "-i", str(group.inventory), "--list"], check=True, capture_output=True, text=True
    )
    data = json.loads(listed.stdout)
    assert data["nfs_server"]["hosts"] == ["nfs1"]
    assert data["nfs_client"]["hosts"] == ["client1"]
    variables = data["_meta"]["hostvars"]["client1"]
    assert variables["ansible_port"] == 2202
    assert variables["ansible_ssh_timeout"] == 120
    assert variables["hosts_address"] == "10.77.0.11"
    assert variables["scratch_devices"] == ["/dev/disk/by-id/virtio-scratch0", "/dev/disk/by-id/virtio-scratch1"]
    assert [export["path"] for export in data["_meta"]["hostvars"]["nfs1"]["nfs_server_exports"]] == [
        "/shared",
        "/projects",
    ]


def test_down_removes_existing_machines_and_reports_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox_state, "sandbox_root", lambda: tmp_path)
    assert not vm_group.down("demo")
    Group("demo").save()
    assert vm_group.down("demo")
    assert list(tmp_path.iterdir()) == []


def test_sandbox_with_the_same_name_keeps_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vm_group, "check_host", lambda: None)
    monkeypatch.setattr(vm_group, "sandbox_path", lambda name: tmp_path / name)
    (tmp_path / "lab").mkdir()
    (tmp_path / "lab" / "sandbox.json").write_text("{}")
    with pytest.raises(UsageError, match="lab is a sandbox of containers"):
        vm_group.down("lab")
    with pytest.raises(UsageError, match="lab is a sandbox of containers"):
        vm_group.up("lab", print)
    assert (tmp_path / "lab" / "sandbox.json").exists()
