"""The modules that only decide: CUDA's packages, Slurm's nodes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from ansible.module_utils.testing import patch_module_args
from ansible_collections.busbar.cluster.plugins.modules import cuda, slurm_node

if TYPE_CHECKING:
    from pathlib import Path
    from types import ModuleType

CUDA: dict[str, Any] = {
    "source": "nvidia",
    "versions": [],
    "default_version": "",
    "absent_versions": [],
    "packages": ["cuda-toolkit"],
    "nccl": False,
    "nccl_version": "",
    "cudnn": False,
    "cudnn_version": "",
    "hold": True,
    "driver": "",
    "minor_compatibility": True,
    "distribution": "Debian 12",
    "distribution_packages": [],
    "nccl_packages": [],
    "cudnn_packages": [],
    "modulefiles_path": "",
}


def run(capsys: pytest.CaptureFixture[str], module: ModuleType, **options: object) -> dict[str, Any]:
    with patch_module_args({"host": "n1", **options}), pytest.raises(SystemExit):
        module.main()
    answer: dict[str, Any] = json.loads(capsys.readouterr().out)
    return answer


def test_the_loaded_driver_counts_where_none_is_declared(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded, gpu = tmp_path / "version", {"model": "NVIDIA H100 80GB HBM3"}
    monkeypatch.setattr(cuda, "LOADED", loaded)
    assert run(capsys, cuda, gpu=gpu, settings=CUDA)["default"] == "13.0"
    loaded.write_text("535.247.01\n")
    assert run(capsys, cuda, gpu=gpu, settings=CUDA)["default"] == "12.9"
    assert run(capsys, cuda, gpu=gpu, settings={**CUDA, "driver": "580"})["default"] == "13.0"
    answer = run(capsys, cuda, gpu=gpu, settings={**CUDA, "versions": ["13.0"], "minor_compatibility": False})
    assert "this host has 535.247.01" in answer["problems"][0]["problem"]
    assert answer["msg"].startswith("Nothing was changed:\nn1: cuda_versions: CUDA 13.0 needs driver ")


def answering(folder: Path, name: str, lines: str, status: int = 0) -> None:
    program = folder / name
    program.write_text(f"#!/bin/sh\ncat <<END\n{lines}\nEND\nexit {status}\n")
    program.chmod(0o755)


def test_nodes_that_are_not_ready(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    wanted = ["gpu1", "gpu2"]
    answer = ask(capsys, wanted=wanted)
    assert answer["unready"] == ["gpu1: not known to Slurm", "gpu2: not known to Slurm"]
    assert "No such file or directory: b'sinfo'" in answer["fault"]
    answering(tmp_path, "sinfo", "gpu1|idle|root|none\ngpu2|down*|slurm|Not responding")
    answer = ask(capsys, wanted=wanted)
    assert (answer["unready"], answer["fault"]) == (["gpu2: down* (Not responding)"], "")
    answering(tmp_path, "sinfo", "gpu1|idle|root|none\ngpu2|idle|root|none")
    assert ask(capsys, wanted=wanted)["unready"] == []
    answering(tmp_path, "sinfo", "", 1)
    assert ask(capsys, wanted=wanted)["fault"] == "non-zero return code"


def ask(capsys: pytest.CaptureFixture[str], **options: object) -> dict[str, Any]:
    with patch_module_args(options), pytest.raises(SystemExit):
        slurm_node.main()
    return dict(json.loads(capsys.readouterr().out))
