"""Tests of the program that names the device files of MIG instances, with recorded output of nvidia-smi."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.catalogue.gres_conf import gres_conf
from busbar.paths import collection
from script_modules import script_module

if TYPE_CHECKING:
    from types import ModuleType

PROGRAM = collection() / "roles/mig/files/usr/local/lib/busbar/mig_devices.py"
# GPU 0 of H100 with 3g, 2g and 1g, GPU 1 without MIG; instance IDs as on a real H100.
INSTANCES = ((2, "3g.40gb"), (3, "2g.20gb"), (9, "1g.10gb"), (10, "1g.10gb"))
LISTING = """+-------------------------------------------------------+
| GPU instances:                                        |
| GPU   Name             Profile  Instance   Placement  |
|                          ID       ID       Start:Size |
|=======================================================|
|   0  MIG 1g.10gb         19       10          1:1     |
+-------------------------------------------------------+
|   0  MIG 1g.10gb         19        9          0:1     |
+-------------------------------------------------------+
|   0  MIG 2g.20gb         14        3          2:2     |
+-------------------------------------------------------+
|   0  MIG 3g.40gb          9        2          4:4     |
+-------------------------------------------------------+
"""
LAYOUT = [
    {"profile": "3g.40gb", "gpus": [0]},
    {"profile": "2g.20gb", "gpus": [0]},
    {"profile": "1g.10gb", "count": 2, "gpus": [0]},
]
GPU = {"model": "NVIDIA H100", "memory_mb": 81559, "count": 2, "slurm_type": "h100", "device_files": "/dev/nvidia[0-1]"}


@pytest.fixture
def program() -> ModuleType:
    module: ModuleType = script_module(PROGRAM)
    return module


def query(minors: tuple[int, int] = (0, 1), *, compute: bool = True) -> str:
    devices = "".join(
        f"<mig_device><index>{index}</index><gpu_instance_id>{gi}</gpu_instance_id>"
        "<compute_instance_id>0</compute_instance_id></mig_device>"
        for index, (gi, _) in enumerate(INSTANCES if compute else INSTANCES[:-1])
    )
    gpus = (
        f'<gpu id="{index}"><minor_number>{minor}</minor_number><mig_devices>{devices if not index else "None"}'
        "</mig_devices></gpu>"
        for index, minor in enumerate(minors)
    )
    return f"<nvidia_smi_log>{''.join(gpus)}</nvidia_smi_log>"


class Host:
    """A root folder with the driver's files and a stand-in for nvidia-smi."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Create the files; like a driver's, the table mig-minors has nine names for each of 15 instances."""
        self.root, self.bin = root, root / "bin"
        lines, number = ["config 1", "monitor 2"], 3
        for gpu in range(2):
            for gi in range(15):
                for end in ("access", *(f"ci{ci}/access" for ci in range(8))):
                    lines.append(f"gpu{gpu}/gi{gi}/{end} {number}")
                    number += 1
        self.numbers = {line.split()[0]: int(line.split()[1]) for line in lines}
        self.write("proc/driver/nvidia-caps/mig-minors", "\n".join(lines) + "\n")
        self.write("proc/devices", "Character devices:\n195 nvidia-frontend\n236 nvidia-caps\n")
        (root / "dev").mkdir()
        self.write(
            "bin/nvidia-smi", '#!/bin/bash\n[ "$1" = mig ] && { cat "${0%/*}/lgi"; exit "$(cat "${0%/*}/rc")"; }\n'
        )
        with (self.bin / "nvidia-smi").open("a") as file:
            file.write('cat "${0%/*}/query"\n')
        (self.bin / "nvidia-smi").chmod(0o755)
        monkeypatch.setenv("PATH", f"{self.bin}:{os.environ['PATH']}")
        self.says(LISTING, query())

    def write(self, path: str, text: str) -> None:
        """Write a file."""
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text(text)

    def says(self, listing: str, log: str, status: int = 0) -> None:
        """Set the output of nvidia-smi."""
        self.write("bin/lgi", listing)
        self.write("bin/query", log)
        self.write("bin/rc", str(status))

    def links(self) -> dict[str, str]:
        """Return the links in /dev/busbar."""
        folder = self.root / "dev/busbar"
        return {path.name: str(path.readlink()) for path in folder.iterdir()} if folder.exists() else {}


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: ModuleType) -> Host:
    # Creating character devices needs root; files stand for them.
    monkeypatch.setattr(program.os, "mknod", lambda path, _mode, device: Path(path).write_text(f"{device}"))
    monkeypatch.setattr(program.stat, "S_ISCHR", lambda _mode: True)
    return Host(tmp_path, monkeypatch)


def test_names_match_gres_conf(host: Host, program: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    assert program.main(["--check"], host.root) == 0
    assert host.links() == {}
    planned = capsys.readouterr().out
    assert program.main([], host.root) == 0
    assert capsys.readouterr().out == planned
    cap = "/dev/nvidia-caps/nvidia-cap"
    found = host.links()
    assert found["gpu0"] == "/dev/nvidia0"
    assert found["gpu0-3g.40gb-0-gi"] == f"{cap}{host.numbers['gpu0/gi2/access']}"
    assert found["gpu0-1g.10gb-0-gi"] == f"{cap}{host.numbers['gpu0/gi9/access']}"
    assert found["gpu0-1g.10gb-1-ci"] == f"{cap}{host.numbers['gpu0/gi10/ci0/access']}"
    lines = gres_conf(GPU, LAYOUT, "files")
    named = {Path(file).name for line in lines for file in str(line.get("MultipleFiles") or line["File"]).split(",")}
    assert named == set(found)
    node = host.root / found["gpu0-1g.10gb-0-gi"].lstrip("/")
    assert node.read_text() == str(os.makedev(236, host.numbers["gpu0/gi9/access"]))
    assert stat.S_IMODE(node.stat().st_mode) == 0o444
    assert program.main([], host.root) == 0
    assert capsys.readouterr().out == ""


def test_minor_numbers_are_used_and_not_indices_of_nvidia_smi(host: Host, program: ModuleType) -> None:
    host.says(LISTING, query((1, 0)))
    assert program.main([], host.root) == 0
    found = host.links()
    assert (found["gpu0"], found["gpu1"]) == ("/dev/nvidia1", "/dev/nvidia0")
    assert found["gpu0-2g.20gb-0-gi"] == f"/dev/nvidia-caps/nvidia-cap{host.numbers['gpu1/gi3/access']}"


def test_names_of_removed_instances_are_removed(host: Host, program: ModuleType) -> None:
    assert program.main([], host.root) == 0
    host.says("No MIG-enabled devices found.\n", query(), 6)
    assert program.main([], host.root) == 0
    assert host.links() == {}
    assert not (host.root / "dev/busbar").exists()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"log": query(compute=False)}, "GPU 0: instance 10 (1g.10gb) has no compute instance"),
        ({"log": "<nvidia_smi_log></nvidia_smi_log>"}, "lists GPU 0, but `nvidia-smi -q` lists 0 GPUs"),
        ({"log": query().replace("<minor_number>0<", "<minor_number>N/A<")}, "no minor number for GPU 0 (found 'N/A'"),
        ({"log": "no log at all"}, "syntax error"),
        ({"status": 9}, "`nvidia-smi mig -lgi`"),
        ({"minors": "config 1\n"}, "mig-minors has no gpu0/gi2/access"),
        ({"minors": None}, "mig-minors has no gpu0/gi2/access"),
        ({"devices": "195 nvidia-frontend\n"}, "/proc/devices does not list nvidia-caps"),
    ],
)
def test_unknown_values_fail_and_change_no_name(
    host: Host, program: ModuleType, change: dict[str, Any], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    host.says(LISTING, change.get("log", query()), change.get("status", 0))
    if "minors" in change:
        table = host.root / "proc/driver/nvidia-caps/mig-minors"
        table.unlink() if change["minors"] is None else table.write_text(change["minors"])
    if "devices" in change:
        host.write("proc/devices", change["devices"])
    assert program.main([], host.root) == 1
    assert words in capsys.readouterr().err
    assert host.links() == {}
