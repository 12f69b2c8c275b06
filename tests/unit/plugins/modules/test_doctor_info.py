"""Tests of the module's facts of one host whose programs answer, fail, hang or are missing."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.busbar.cluster.plugins.modules import doctor_info
from executables import executable
from module_run import module_result

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

RUNS = "Id=slurmctld.service\nLoadState=loaded\nUnitFileState=enabled\nActiveState=active\n"
NODES = (
    "NodeName=gpu1 State=IDLE Reason=\n"
    "NodeName=gpu2 State=IDLE+DRAIN Reason=busbar: GPU 1 is lost [root@2026-11-20T10:00:00]\n"
)
PROGRAMS = {
    "systemctl": f"printf '%s' '{RUNS}'",
    "scontrol": f"""case "$*" in
      ping) echo 'Slurmctld(primary) at ctl is UP';;
      *reservation*) echo 'No reservations in the system';;
      *) printf '%s' '{NODES}';;
    esac""",
    "sacctmgr": "echo cluster",
}


@pytest.fixture
def look(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Any]:
    """Run the module on a host with these programs; all other paths are empty."""
    monkeypatch.setattr(doctor_info, "_SSH", tmp_path / "ssh")
    monkeypatch.setattr(doctor_info, "_TLS", tmp_path / "tls")
    monkeypatch.setattr(doctor_info, "_CONFIGURATION", tmp_path / "slurm.conf")
    monkeypatch.setattr(doctor_info, "network_mounts", lambda _fstab, _mounts: {})
    (tmp_path / "slurm.conf").write_text("AccountingStorageType=accounting_storage/slurmdbd\n")
    (tmp_path / "bin").mkdir()

    def run(timeout_s: int = 5, **programs: str) -> Any:  # noqa: ANN401 - any result
        for name, text in {**PROGRAMS, **programs}.items():
            executable(tmp_path / "bin" / name, f"#!/bin/sh\n{text}\n")
        monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
        monkeypatch.setattr(doctor_info, "TIMEOUT_S", timeout_s)
        return module_result(doctor_info, capsys, host="ctl", slurm=True)

    return run


def test_drained_node_is_the_only_problem(look: Callable[..., Any]) -> None:
    answer = look()
    (problem,) = answer["problems"]
    assert problem["hosts"] == ["gpu2"]
    assert "GPU 1 is lost" in problem["problem"]
    assert answer["reservations"] == []
    assert answer["changed"] is False


def test_stopped_and_unresponsive_daemons_are_reported(look: Callable[..., Any]) -> None:
    answer = look(
        systemctl=f"printf '%s' '{RUNS.replace('ActiveState=active', 'ActiveState=failed')}'",
        sacctmgr="echo 'sacctmgr: error: Unable to connect to slurmdbd'; exit 1",
    )
    keys = {each["key"]: each for each in answer["problems"]}
    assert "slurmctld" in json.dumps(answer["problems"][0])
    assert "Unable to connect" in keys["slurmdbd"]["problem"]
    assert "journalctl -u slurmdbd" in keys["slurmdbd"]["remedy"]


def test_hanging_program_is_reported_and_killed(look: Callable[..., Any]) -> None:
    answer = look(timeout_s=1, sacctmgr="exec sleep 60")
    (problem,) = [each for each in answer["problems"] if each["key"] == "slurmdbd"]
    assert "did not answer within 1 s" in problem["problem"]


def test_accounting_is_not_checked_on_a_host_without_it(look: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "slurm.conf").write_text("#AccountingStorageType=accounting_storage/slurmdbd\n")
    answer = look(sacctmgr="exit 1")
    assert [each for each in answer["problems"] if each["key"] == "slurmdbd"] == []


def test_missing_program_returns_127(tmp_path: Path) -> None:
    code, text = doctor_info.Diagnosis("ctl", 5).run(str(tmp_path / "none"))
    assert code == 127
    assert "No such file" in text
