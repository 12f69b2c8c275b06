"""The modules that choose the packages of DCGM and its exporter, on this machine."""

from __future__ import annotations

import json
import socket
from typing import TYPE_CHECKING, Any

import pytest
from ansible.module_utils.testing import patch_module_args
from ansible_collections.busbar.cluster.plugins.modules import dcgm, dcgm_exporter

if TYPE_CHECKING:
    from pathlib import Path
    from types import ModuleType

GPU = {"model": "NVIDIA H100 80GB HBM3"}
SETTINGS: dict[str, Any] = {
    "package": "datacenter-gpu-manager-exporter",
    "source": "nvidia",
    "dcgm_source": "nvidia",
    "version": "",
    "hold": True,
    "packages": {},
    "address": "127.0.0.1",
    "port": 9400,
    "host_engine": "127.0.0.1:5555",
    "interval_s": 15,
    "profiling": "auto",
    "counters": [],
    "counters_extra": [],
    "job_directory": "",
    "arguments": [],
    "web_config": False,
}


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


def test_a_port_that_another_holds_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        given = {"unit": "nvidia-dcgm-exporter", "settings": {**SETTINGS, "port": port}}
        answer = run(capsys, dcgm_exporter, **given)
    assert (answer["failed"], answer["busbar_refused"]) == (True, True)
    assert [item["key"] for item in answer["problems"]] == ["dcgm_exporter_port"]
    assert f"port {port} is held by" in answer["msg"]
    answer = run(capsys, dcgm_exporter, **given)
    assert answer["packages"][0]["name"] == "datacenter-gpu-manager-exporter"
    assert answer["listen"] == f"127.0.0.1:{port}"
    assert answer["listen"] in answer["command"].split()


def test_options_are_refused_before_the_port_is_looked_at(capsys: pytest.CaptureFixture[str]) -> None:
    answer = run(capsys, dcgm_exporter, unit="x", settings={**SETTINGS, "port": 70000, "interval_s": 0})
    assert [item["key"] for item in answer["problems"]] == ["dcgm_exporter_port", "dcgm_exporter_interval_s"]
