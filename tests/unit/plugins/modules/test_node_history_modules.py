"""Tests of the modules that collect node records, with and without accounting, and on a host without Slurm."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.busbar.cluster.plugins.module_utils.health import machine_record
from ansible_collections.busbar.cluster.plugins.modules import slurm_node
from executables import executable
from module_run import module_result

if TYPE_CHECKING:
    from pathlib import Path

NODE = "NodeName=gpu1 State=IDLE BootTime=1763850000 Version=24.11.5\n"
# Message of sacct(1) and sacctmgr(1) with AccountingStorageType=accounting_storage/none.
ABSENT = "Slurm accounting storage is disabled"


@pytest.fixture
def slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty directory for fake Slurm commands."""
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    put(tmp_path / "scontrol", f"printf '%s' '{NODE}'")
    return tmp_path


def put(path: Path, text: str) -> None:
    executable(path, f'#!/bin/sh\nenv >"$0.env"; printf "%s\\n" "$@" >"$0.asked"\n{text}\n')


def asked(path: Path) -> list[str]:
    return path.with_name(f"{path.name}.asked").read_text().splitlines()


def history(capsys: pytest.CaptureFixture[str], **arguments: object) -> dict[str, Any]:
    found: dict[str, Any] = module_result(slurm_node, capsys, **{"history": [], **arguments})["history"]
    return found


def test_all_nodes_are_queried_at_once(slurm: Path, capsys: pytest.CaptureFixture[str]) -> None:
    put(slurm / "sacctmgr", "echo 'gpu1|1763850000|Unknown|DOWN|slurm(64030)|Not responding'")
    put(slurm / "sacct", "echo '11|NODE_FAIL|0:0|alice|2|gpu[1-2]|gpu2|1763850050|train'")
    found = history(capsys)
    assert (found["problems"], list(found["nodes"])) == ({}, ["gpu1"])
    assert (found["events"][0]["reason"], found["jobs"][0]["failed_nodes"]) == ("Not responding", ["gpu2"])
    assert "--state=NODE_FAIL,BOOT_FAIL" in asked(slurm / "sacct")
    assert not any(word.startswith("--nodelist") for word in asked(slurm / "sacct"))
    assert "SLURM_TIME_FORMAT=%s" in (slurm / "sacct.env").read_text()


def test_named_node_also_lists_jobs_that_failed_on_their_own(
    slurm: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    put(slurm / "sacctmgr", "true")
    monkeypatch.setattr(slurm_node, "MOST", 2)
    put(slurm / "sacct", 'for at in 1 2 3; do echo "$at|FAILED|1:0|alice|1|gpu1||$at|x"; done')
    found = history(capsys, history=["gpu1"], days=3)
    assert [each["job"] for each in found["jobs"]] == ["2", "3"]
    assert {"--nodelist=gpu1", "--state=NODE_FAIL,BOOT_FAIL,FAILED,OUT_OF_MEMORY"} <= set(asked(slurm / "sacct"))
    assert "nodes=gpu1" in asked(slurm / "sacctmgr")


@pytest.mark.parametrize(("text", "said"), [(f"echo '{ABSENT}' >&2", ABSENT), ("echo no >&2; exit 1", "failed: no")])
def test_history_is_unknown_without_accounting(
    slurm: Path, capsys: pytest.CaptureFixture[str], text: str, said: str
) -> None:
    put(slurm / "sacct", text)
    found = history(capsys)
    assert (found["events"], found["jobs"], list(found["nodes"])) == (None, None, ["gpu1"])
    assert found["problems"]["events"] == "sacctmgr is not installed"
    assert said in found["problems"]["jobs"]


def test_unresponsive_controller_is_reported(slurm: Path, capsys: pytest.CaptureFixture[str]) -> None:
    put(slurm / "scontrol", "echo 'Unable to contact slurm controller' >&2; exit 1")
    found = history(capsys)
    assert found["nodes"] == {}
    assert found["problems"]["nodes"] == "`scontrol` failed: Unable to contact slurm controller"


def test_machine_record_keeps_serial_numbers_and_drops_placeholders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine_record, "find_smi", lambda: None)
    files = {
        "sys/class/dmi/id/product_serial": "Default string\n",
        "sys/class/dmi/id/product_uuid": "4c4c-0042\n",
        "sys/class/dmi/id/sys_vendor": "Maker",
        "sys/class/dmi/id/product_name": "Box",
        "sys/class/net/eth0/address": "aa:bb:cc:00:00:01",
        "sys/class/net/lo/address": "00:00:00:00:00:00",
        "proc/stat": "cpu 1\nbtime 1763850000\n",
        "etc/ssh/ssh_host_ed25519_key.pub": "ssh-ed25519 AAAA root@gpu1\n",
        "var/history.jsonl": '{"at": 1, "event": "boot"}\n{\n',
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "sys/class/net/eth0/device").mkdir()
    found = machine_record.machine_record(tmp_path, "/var/history.jsonl")
    assert found["parts"] == [
        {"kind": "machine", "id": "4c4c-0042", "serial": "", "name": "Maker Box"},
        {"kind": "nic", "id": "aa:bb:cc:00:00:01", "serial": "", "name": "eth0"},
    ]
    assert (found["booted"], found["host_key"]) == (1763850000, "ssh-ed25519 AAAA")
    assert found["history"] == [{"at": 1, "event": "boot"}]
    assert found["problems"] == {"history of the health check": "1 damaged lines in /var/history.jsonl"}
