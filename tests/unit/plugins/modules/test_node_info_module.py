"""What the module finds of kernels and versions on a host."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

from ansible_collections.busbar.cluster.plugins.module_utils.common.kernels import installed_kernels
from ansible_collections.busbar.cluster.plugins.module_utils.common.software_versions import versions

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

SAID = """\
installed nvidia-container-toolkit 1.17.8-1
config-files datacenter-gpu-manager 1:3.3.9
installed datacenter-gpu-manager-4-core 1:4.5.3-1
"""


def test_versions_are_those_of_installed_packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_this_host_is_asked_with_its_own_package_manager() -> None:
    found = versions()
    assert set(found) <= {"driver", "cuda", "container_toolkit", "dcgm", "dcgm_exporter"}
    assert all(found.values())
