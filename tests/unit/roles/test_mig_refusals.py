"""What Slurm could not give out is refused before the GPUs of a node are divided."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from plays import play_of, played

if TYPE_CHECKING:
    from pathlib import Path

GPU = {"model": "NVIDIA H100", "memory_mb": 81559, "count": 8, "slurm_type": "h100", "device_files": "/dev/nvidia[0-7]"}


def run(folder: Path, plugins: list[str], **given: object) -> tuple[int, str]:
    """Run it in check mode on this machine, whose Slurm has these plugins; what was told, in one line."""
    (folder / "slurm-wlm").mkdir()
    for name in plugins:
        (folder / "slurm-wlm" / name).touch()
    known = {
        "__mig_hardware": GPU,
        "mig_layout": {"profile": "1g.10gb", "count": 7},
        "__mig_plugin_folders": [str(folder / "slurm-wlm")],
        **given,
    }
    return played(folder, play_of("mig", "layout"), "gpu1", "--check", given=known)


@pytest.mark.parametrize(
    ("plugins", "given"),
    [
        # The distributions' Slurm, which needs no plugin for instances that are named by their files.
        (["gres_gpu.so"], {}),
        (["gres_gpu.so", "gpu_nvml.so"], {"slurm_gres_mode": "nvml"}),
        # No Slurm yet, and so no jobs.
        ([], {"slurm_gres_mode": "nvml"}),
    ],
)
def test_the_layout_of_the_readme_goes_on(tmp_path: Path, plugins: list[str], given: dict[str, object]) -> None:
    code, told = run(tmp_path, plugins, **given)
    assert "Drain the node and create the MIG instances" in told, told
    assert (code, "failed=0" in told) == (0, True), told


def test_a_slurm_without_nvml_is_refused_first(tmp_path: Path) -> None:
    code, told = run(tmp_path, ["gres_gpu.so"], slurm_gres_mode="nvml")
    assert "gpu1: slurm_gres_mode is nvml, but the installed Slurm has no gpu_nvml.so" in told
    assert "Remedy: remove slurm_gres_mode" in told
    assert (code, "Drain the node and create the MIG instances" in told, "changed=0" in told) == (2, False, True)


def test_a_layout_that_does_not_fit_is_refused_first(tmp_path: Path) -> None:
    code, told = run(tmp_path, [], mig_layout=[{"profile": "1g.10gb", "count": 8}])
    assert "8 x 1g.10gb on one H100 80 GB, which supports at most 7" in told
    assert (code, "changed=0" in told) == (2, True)
