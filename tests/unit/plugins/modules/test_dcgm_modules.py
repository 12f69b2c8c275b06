"""The module that chooses the packages of DCGM, on this machine."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from ansible.module_utils.testing import patch_module_args
from ansible_collections.busbar.cluster.plugins.modules import dcgm

if TYPE_CHECKING:
    from pathlib import Path
    from types import ModuleType

GPU = {"model": "NVIDIA H100 80GB HBM3"}


def run(capsys: pytest.CaptureFixture[str], module: ModuleType, **options: object) -> dict[str, Any]:
    with patch_module_args({"host": "gpu1", "gpu": GPU, **options}), pytest.raises(SystemExit):
        module.main()
    answer: dict[str, Any] = json.loads(capsys.readouterr().out)
    return answer


def test_the_library_decides_before_the_loaded_module(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded, library = tmp_path / "version", tmp_path / "libnvidia-ml.so.1"
    loaded.write_text("535.247.01\n")
    monkeypatch.setattr(dcgm, "LOADED", loaded)
    given = {"package": "datacenter-gpu-manager-4", "proprietary": False, "libraries": [str(library)]}
    names = [item["name"] for item in run(capsys, dcgm, **given)["packages"]]
    assert names == ["datacenter-gpu-manager-4-core", "datacenter-gpu-manager-4-cuda12"]
    (tmp_path / "libnvidia-ml.so.580.95.05").touch()
    library.symlink_to("libnvidia-ml.so.580.95.05")
    answer = run(capsys, dcgm, **given)
    assert answer["packages"][1]["name"] == "datacenter-gpu-manager-4-cuda13"
    assert (answer["changed"], answer["waits"]) == (False, "")
