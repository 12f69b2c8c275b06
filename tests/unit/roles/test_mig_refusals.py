"""MIG layouts that Slurm cannot offer are refused before the GPUs of a node are divided."""

from __future__ import annotations

import re
from typing import Any

import pytest
from plays import play_of, played

GPU = {"model": "NVIDIA H100", "memory_mb": 81559, "count": 8, "slurm_type": "h100", "device_files": "/dev/nvidia[0-7]"}
NVML = {"slurm_gres_mode": "nvml"}
# By host: the plugins of its Slurm, and its options.
HOSTS: dict[str, tuple[list[str], dict[str, Any]]] = {
    # Slurm of the distributions, which needs no plugin for instances with named device files.
    "packaged": (["gres_gpu.so"], {}),
    "with_nvml": (["gres_gpu.so", "gpu_nvml.so"], NVML),
    # Slurm is not installed yet, so there are no jobs.
    "new": ([], NVML),
    "without_nvml": (["gres_gpu.so"], NVML),
    "too_many": ([], {"mig_layout": [{"profile": "1g.10gb", "count": 8}]}),
}


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the output of the role in check mode with all hosts."""
    site = tmp_path_factory.mktemp("site")
    hosts = {}
    for host, (plugins, given) in HOSTS.items():
        folder = site / host
        folder.mkdir()
        for name in plugins:
            (folder / name).touch()
        layout = {"profile": "1g.10gb", "count": 7}
        hosts[host] = {"mig_layout": layout, "own_folders": [str(folder)], **given}
    known = {"__mig_hardware": GPU, "__mig_plugin_folders": "{{ own_folders }}"}
    return played(site, play_of("mig", "layout"), {"hosts": hosts}, "--check", given=known)[1]


def created(said: str) -> str:
    """Return the part of the output about the task that divides the GPUs."""
    return said.partition("Drain the node and create the MIG instances")[2].partition("TASK [")[0]


@pytest.mark.parametrize("host", ["packaged", "with_nvml", "new"])
def test_layout_of_the_readme_is_accepted(said: str, host: str) -> None:
    assert f"[{host}]" in created(said), said
    assert re.search(rf"{host} : ok=\d+ changed=\d+ unreachable=0 failed=0 ", said), said


@pytest.mark.parametrize(
    ("host", "words"),
    [
        ("without_nvml", "without_nvml: slurm_gres_mode is nvml, but the installed Slurm has no gpu_nvml.so"),
        ("without_nvml", "Remedy: remove slurm_gres_mode"),
        ("too_many", "8 x 1g.10gb on one H100 80 GB, which supports at most 7"),
    ],
)
def test_unsupported_layout_is_refused_first(said: str, host: str, words: str) -> None:
    assert words in said
    assert f"[{host}]" not in created(said), said
    assert re.search(rf"{host} : ok=1 changed=0 unreachable=0 failed=1 ", said), said
