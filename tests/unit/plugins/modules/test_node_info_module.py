"""Tests of the kernels and versions that the module finds on a host."""

from __future__ import annotations

import platform
import subprocess
from types import SimpleNamespace
from typing import TYPE_CHECKING

from ansible_collections.busbar.cluster.plugins.module_utils.common.kernels import installed_kernels
from ansible_collections.busbar.cluster.plugins.module_utils.common.software_versions import versions
from ansible_collections.busbar.cluster.plugins.modules import node_info

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

SAID = """\
installed nvidia-container-toolkit 1.17.8-1
config-files datacenter-gpu-manager 1:3.3.9
installed datacenter-gpu-manager-4-core 1:4.5.3-1
"""


def test_versions_are_read_from_installed_packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        assert "datacenter-gpu-manager-4-core" in command
        return subprocess.CompletedProcess(command, 1, SAID, "no packages found matching dcgm-exporter")

    for name in ("cuda-12.9", "cuda-13.1", "cuda-13", "cuda-keyring"):
        (tmp_path / "usr/local" / name).mkdir(parents=True)
    (tmp_path / "sys/module/nvidia").mkdir(parents=True)
    (tmp_path / "sys/module/nvidia/version").write_text("580.95.05\n")
    monkeypatch.setattr(subprocess, "run", run)
    assert versions(tmp_path) == {
        "driver": "580.95.05",
        "cuda": "13.1",
        "container_toolkit": "1.17.8-1",
        "dcgm": "1:4.5.3-1",
    }


def test_kernels_are_those_with_an_image(tmp_path: Path) -> None:
    for name in ("vmlinuz-6.8.0-60-generic", "vmlinuz-0-rescue-0123", "config-6.8.0-124-generic"):
        (tmp_path / "boot").mkdir(exist_ok=True)
        (tmp_path / "boot" / name).touch()
    (tmp_path / "usr/lib/modules/5.14.0-570.el9.x86_64").mkdir(parents=True)
    (tmp_path / "usr/lib/modules/5.14.0-570.el9.x86_64/vmlinuz").touch()
    (tmp_path / "usr/lib/modules/5.14.0-427.el9.x86_64").mkdir()
    assert installed_kernels(tmp_path) == ["5.14.0-570.el9.x86_64", "6.8.0-60-generic"]


def test_versions_of_this_host_are_read_with_its_package_manager() -> None:
    found = versions()
    assert set(found) <= {"driver", "cuda", "container_toolkit", "dcgm", "dcgm_exporter"}
    assert all(found.values())


def test_all_reasons_for_a_reboot_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    required = tmp_path / "reboot-required"
    monkeypatch.setattr(node_info, "REBOOT_REQUIRED", required)
    monkeypatch.setattr(node_info, "installed_kernels", lambda: ["6.8.0-60-generic", "6.8.0-124-generic"])
    monkeypatch.setattr(platform, "release", lambda: "6.8.0-60-generic")
    status = 1
    module = SimpleNamespace(get_bin_path=lambda name: name, run_command=lambda *_words, **_: (status, "", ""))
    required.touch()
    required.with_name("reboot-required.pkgs").write_text("libc6\nlibc6\ndbus\n")
    kernel, packages, program = node_info.reboot_reasons(module)
    assert "6.8.0-124-generic is installed" in kernel
    assert "dbus, libc6" in packages
    assert "needs-restarting" in program
    status = 0
    required.unlink()
    monkeypatch.setattr(platform, "release", lambda: "6.8.0-124-generic")
    assert node_info.reboot_reasons(module) == []
