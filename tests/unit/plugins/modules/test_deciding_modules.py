"""The modules that only decide: CUDA's packages, the exporter of a node, Slurm's metrics and nodes."""

from __future__ import annotations

import json
import socket
from typing import TYPE_CHECKING, Any

import pytest
from ansible.module_utils.testing import patch_module_args
from ansible_collections.busbar.cluster.plugins.modules import cuda, node_exporter, slurm_metrics, slurm_node

if TYPE_CHECKING:
    from pathlib import Path
    from types import ModuleType

EXPORTER: dict[str, Any] = {
    "source": "distribution",
    "packaged": True,
    "archives": {},
    "architecture": "x86_64",
    "program": "/usr/bin/prometheus-node-exporter",
    "collectors": [],
    "collectors_off": [],
    "systemd_units": [],
    "textfile_dir": "/t",
    "mount_timeout_s": 5,
    "arguments": [],
    "web_config": False,
    "facts": [],
    "hardware_name": "",
    "profile": {},
}
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
METRICS = {"source": "auto", "interval": 30, "timeout": 10, "jobs_limit": 5000, "memory_limit": "1G", "user": ""}


def run(capsys: pytest.CaptureFixture[str], module: ModuleType, **options: object) -> dict[str, Any]:
    with patch_module_args({"host": "n1", **options}), pytest.raises(SystemExit):
        module.main()
    answer: dict[str, Any] = json.loads(capsys.readouterr().out)
    return answer


def test_a_port_that_another_holds_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        given = {"address": "127.0.0.1", "port": server.getsockname()[1], "unit": "x"}
        answer = run(capsys, node_exporter, settings=EXPORTER, **given)
        wrong = run(capsys, node_exporter, settings={**EXPORTER, "packaged": False}, **given)
    assert (answer["failed"], answer["busbar_refused"]) == (True, True)
    assert [item["key"] for item in answer["problems"]] == ["node_exporter_port"]
    assert [item["key"] for item in wrong["problems"]] == ["node_exporter_source"]
    answer = run(capsys, node_exporter, settings=EXPORTER, **given)
    assert answer["listen"] == f"127.0.0.1:{given['port']}"
    assert f"--web.listen-address={answer['listen']}" in answer["command"].split()
    assert "busbar_node_expected_gpus 0" in answer["facts"]


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


def test_slurmctld_is_asked_for_its_release_where_it_runs(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "slurmctld"
    program.write_text('#!/bin/sh\necho "slurm-wlm 25.11.0"\n')
    program.chmod(0o755)
    given = {"settings": METRICS, "slurm_config": {"MetricsType": "metrics/openmetrics"}}
    assert run(capsys, slurm_metrics, controller=True, **given)["native"] is False  # it is not there yet
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    answer = run(capsys, slurm_metrics, controller=True, **given)
    assert (answer["native"], answer["user"], answer["own_user"]) == (True, "busbar-metrics", True)
    assert run(capsys, slurm_metrics, controller=False, **given)["native"] is False
    refused = run(capsys, slurm_metrics, controller=True, settings={**METRICS, "interval": 1}, slurm_config={})
    assert "slurm_metrics_interval" in [item["key"] for item in refused["problems"]]


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
