"""Tests of `busbar gpu parse`: data, table, and a one-line error for unreadable input."""

from __future__ import annotations

import io
import json
import sys
from typing import TYPE_CHECKING

import pytest
from busbar.cli import main

if TYPE_CHECKING:
    from pathlib import Path

LOG = """<?xml version="1.0" ?>
<nvidia_smi_log>
  <driver_version>570.86.15</driver_version>
  <attached_gpus>1</attached_gpus>
  <gpu id="00000000:3B:00.0">
    <product_name>NVIDIA A40</product_name>
    <fb_memory_usage><total>46068 MiB</total></fb_memory_usage>
  </gpu>
</nvidia_smi_log>
"""


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "smi.xml"
    path.write_text(LOG)
    return path


def test_json(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["gpu", "parse", str(log), "--format", "json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["driver_version"] == "570.86.15"
    assert data["gpus"][0]["product_name"] == "NVIDIA A40"
    assert data["gpus"][0]["pci_bus_id"] == "00000000:3B:00.0"
    assert data["errors"] == []


def test_table(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["gpu", "parse", str(log)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "driver 570.86.15, CUDA -, 1 GPU(s)"
    assert "NVIDIA A40" in lines[2]
    assert "46068" in lines[2]


def test_standard_input(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(LOG.encode("utf-16"))))
    assert main(["gpu", "parse", "-", "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["gpu_count"] == 1


def test_error_of_nvidia_smi_without_a_driver_is_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "failed"
    path.write_text("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.\n")
    assert main(["gpu", "parse", str(path), "--format", "json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["gpus"] == []
    assert "couldn't communicate" in data["errors"][0]


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "is empty"),
        (b" \n\n", "is empty"),
        (b"\x7fELF\x00\x00\x01", "is a binary file, not text"),
        (
            b"Linux\nnothing of the kind\n",
            "contains no output of nvidia-smi -q; create the file with: nvidia-smi -q -x > FILE",
        ),
        (b"\xff\xfe\xfa\x80\x12", "contains no output of nvidia-smi -q; create the file with: nvidia-smi -q -x > FILE"),
        (
            b"name, address\ngpu1, 10.0.0.1\n",
            "contains no output of nvidia-smi -q; create the file with: nvidia-smi -q -x > FILE",
        ),
    ],
)
def test_unreadable_input_is_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes, problem: str
) -> None:
    path = tmp_path / "file"
    path.write_bytes(content)
    assert main(["gpu", "parse", str(path)]) == 2
    assert capsys.readouterr() == ("", f"busbar: {path} {problem}\n")


@pytest.mark.parametrize("name", ["missing", "."])
def test_paths_that_are_not_files_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    assert main(["gpu", "parse", str(tmp_path / name)]) == 2
    assert capsys.readouterr().err.startswith(f"busbar: cannot read {tmp_path}")


@pytest.mark.parametrize("action", ["Reset", "Drain and Reset", "Reboot"])
def test_gpu_with_a_recovery_action_is_shown_with_the_remedy(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], action: str
) -> None:
    path = tmp_path / "smi.xml"
    path.write_text(LOG.replace("</gpu>", f"<gpu_recovery_action>{action}</gpu_recovery_action></gpu>"))
    assert main(["gpu", "parse", str(path)]) == 0
    said = capsys.readouterr().out
    assert f"GPU 0 (0000:3b:00.0): the driver requests the action {action}. Remedy: drain the node" in said
    assert "gpu-reset -i 0" in said


def test_healthy_gpu_has_no_line_of_its_own(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["gpu", "parse", str(log)]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 3


SUMMARY = """\
Tue Apr  7 10:00:00 2026
+-----------------------------------------------------------------------------------------+
| NVIDIA-SMI 580.95.05              Driver Version: 580.95.05      CUDA Version: 13.0     |
|-----------------------------------------+------------------------+----------------------+
|   0  NVIDIA B200                    On  |   00000000:1B:00.0 Off |                    0 |
| N/A   30C    P0            140W / 1000W |       0MiB / 183359MiB |      0%      Default |
+-----------------------------------------+------------------------+----------------------+
|   1  NVIDIA B200                    On  |   00000000:43:00.0 Off |                 {odd} |
+-----------------------------------------+------------------------+----------------------+
"""


@pytest.mark.parametrize("odd", ["ERR!", "   0"])
def test_summary_table_is_refused_with_the_required_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], odd: str
) -> None:
    path = tmp_path / "summary"
    path.write_text(SUMMARY.format(odd=odd))
    assert main(["gpu", "parse", str(path)]) == 2
    output = capsys.readouterr()
    assert output.out == ""
    for words in (str(path), "summary table", "nvidia-smi -q -x > FILE"):
        assert words in output.err
    assert ("GPU 1 reports errors" in output.err) == (odd == "ERR!")
