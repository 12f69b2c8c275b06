"""Tests of the program that watches a node during a soak, with recordings of nvidia-smi and of the kernel log."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest
from executables import executable
from gpu_samples import gpu_xml, log_xml
from role_programs import install_program

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

POWER = "<gpu_power_readings><instant_power_draw>{} W</instant_power_draw></gpu_power_readings>"
CLOCKS = "<clocks><sm_clock>1755 MHz</sm_clock></clocks>"
XID = "2026-11-20T00:00:01 gpu1 kernel: NVRM: Xid (PCI:0000:11:00): 79, GPU has fallen off the bus."
LINKS = """GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-0)
\t Link 0: CRC Flit Errors: 3
\t Link 1: CRC Flit Errors: 4
"""


class Node:
    """A node with the program, its readers and stand-ins for the programs that it runs."""

    def __init__(self, folder: Path) -> None:
        """Install the program and the stand-ins."""
        self.folder = folder
        install_program("validation/files/busbar_soak_watch.py", folder / "busbar_soak_watch")
        (folder / "bin").mkdir()
        smi = f"#!/bin/sh\ncase \"$*\" in '-q -x') cat {folder}/smi ;; 'nvlink -e') cat {folder}/links ;; esac\n"
        self.program("nvidia-smi", smi)
        self.program("journalctl", f"#!/bin/sh\ncat {folder}/log\n")
        for name in ("sg", "dmesg"):
            self.program(name, "#!/bin/sh\necho nobody may read it >&2; exit 1\n")
        (folder / "links").write_text(LINKS)
        (folder / "log").write_text("2026-11-20T00:00:00 gpu1 kernel: Linux version 6.12\n")
        self.gpus()

    def program(self, name: str, text: str) -> None:
        """Write a program."""
        executable(self.folder / "bin" / name, text)

    def gpus(self, **changes: object) -> None:
        """Set up two GPUs, the second with changes."""
        first = gpu_xml(0, power=POWER.format("690.12") + CLOCKS)
        (self.folder / "smi").write_text(log_xml(first, gpu_xml(1, **{"power": POWER.format(70) + CLOCKS, **changes})))

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """Start the program."""
        return subprocess.Popen(
            [sys.executable, "-B", self.folder / "busbar_soak_watch", "--interval", "0.2", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PATH": f"{self.folder / 'bin'}:{os.environ['PATH']}", "SLURMD_NODENAME": "gpu1"},
        )


def told(process: subprocess.Popen[str]) -> Iterator[dict[str, Any]]:
    """Yield the reports of the program."""
    for line in process.stdout or ():
        assert line.startswith("busbar-soak ")
        yield json.loads(line.removeprefix("busbar-soak "))


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def test_gpus_are_reported_until_the_input_ends(node: Node) -> None:
    process = node.start("--device", "gpu")
    lines = told(process)
    begin, sample = next(lines), next(lines)
    (node.folder / "log").write_text((node.folder / "log").read_text() + f"{XID}\nother\n")
    node.gpus(volatile="<dram_uncorrectable>2</dram_uncorrectable>")
    assert process.stdin is not None
    process.stdin.close()
    *_samples, end = lines
    assert process.wait(30) == 0
    assert [item["when"] for item in (begin, sample, end)] == ["begin", "sample", "end"]
    assert (begin["node"], begin["kernel_log"], end["faults"]) == ("gpu1", True, [XID])
    first, second = begin["devices"]
    assert (first["clock_mhz"], first["power_w"], first["nvlink_errors"]) == (1755.0, 690.12, 7)
    assert first["reasons"] == ["gpu_idle"]
    assert second["remapped_rows"] == {"correctable": 0, "uncorrectable": 0, "pending": False, "failure": False}
    counts = [item["devices"][1]["ecc_volatile_uncorrected_total"] for item in (begin, end)]
    assert counts == [0, 2]
    assert "uuid" not in sample["devices"][0]
    assert begin["at"] <= sample["at"] <= end["at"] <= time.time()


def test_an_unreadable_log_is_reported_and_a_lost_driver_has_no_gpus(node: Node) -> None:
    (node.folder / "log").write_text("-- No entries --\n")
    node.program("nvidia-smi", "#!/bin/sh\necho 'NVIDIA-SMI has failed'\nexit 9\n")
    process = node.start("--device", "gpu")
    assert process.stdin is not None
    process.stdin.close()
    begin, *_others, end = told(process)
    assert process.wait(30) == 0
    assert (begin["kernel_log"], end["kernel_log"], end["faults"], end["devices"]) == (False, False, [], [])


def test_without_gpus_cpus_are_reported(node: Node) -> None:
    process = node.start("--device", "cpu")
    assert process.stdin is not None
    process.stdin.close()
    (begin, *_others, _end) = told(process)
    assert process.wait(30) == 0
    assert [device["device"] for device in begin["devices"]] == [0]
    assert begin["kernel_log"] is True
