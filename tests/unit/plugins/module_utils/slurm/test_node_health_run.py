"""The health check as slurmd runs it: when it asks Slurm, what it says, and that slurmd starts in any case."""

from __future__ import annotations

import dataclasses
import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.busbar.cluster.plugins.module_utils.slurm import node_health_run
from ansible_collections.busbar.cluster.plugins.plugin_utils.program_files import program_files
from gpu_samples import gpu_xml, log_xml

if TYPE_CHECKING:
    from collections.abc import Sequence

TOP = Path(__file__).resolve().parents[5]
DCGMI = TOP / "tests/fixtures/dcgm/dcgmi"
DECLARED: dict[str, Any] = {
    "node": "gpu1",
    "gpus": 1,
    "devices": "",
    "paths": ["/"],
    "free_mb": 0,
    "timeout_s": 10,
    "resume": False,
    "dcgm": {"level": "links", "host": "127.0.0.1:5555"},
}


@dataclasses.dataclass
class Slurm:
    """A node of a made-up Slurm, and what it was asked."""

    state: str = "IDLE"
    reason: str = ""
    asked: list[str] = dataclasses.field(default_factory=list)

    def __call__(self, words: Sequence[str]) -> str:
        """Answer as scontrol does."""
        self.asked.append(" ".join(words))
        return f"NodeName=gpu1\n   State={self.state}\n   Reason={self.reason} [root@2026-11-21T06:44:01]\n"


@pytest.fixture
def note(tmp_path: Path) -> Path:
    return tmp_path / "notes" / "drained"


def test_a_sound_node_costs_slurm_nothing(note: Path) -> None:
    slurm = Slurm("IDLE+DRAIN", "busbar health: x")
    assert node_health_run.settle([], DECLARED, slurm, note) == "nothing"
    assert node_health_run.settle([], {**DECLARED, "resume": True}, slurm, note) == "nothing"
    assert slurm.asked == []


def test_a_sick_node_is_drained_once(note: Path) -> None:
    slurm = Slurm()
    assert node_health_run.settle(["GPU 1 is lost"], DECLARED, slurm, note) == "drain"
    assert slurm.asked == ["show node gpu1", "update NodeName=gpu1 State=DRAIN Reason=busbar health: GPU 1 is lost"]
    assert note.read_text() == "busbar health: GPU 1 is lost\n"
    slurm = Slurm("MIXED+DRAIN", "busbar health: GPU 1 is lost")
    assert node_health_run.settle(["GPU 1 is lost", "/ is full"], DECLARED, slurm, note) == "keep"
    assert slurm.asked == ["show node gpu1"]


def test_it_comes_back_only_where_that_is_allowed(note: Path) -> None:
    node_health_run.keep_note(note, "busbar health: x")
    slurm = Slurm("IDLE+DRAIN", "busbar health: x")
    assert node_health_run.settle([], DECLARED, slurm, note) == "nothing"
    assert node_health_run.settle([], {**DECLARED, "resume": True}, slurm, note) == "resume"
    assert slurm.asked == ["show node gpu1", "update NodeName=gpu1 State=RESUME"]
    assert not note.exists()


def test_a_drain_of_an_admin_is_left_alone_and_ends_our_own(note: Path) -> None:
    node_health_run.keep_note(note, "busbar health: x")
    slurm = Slurm("IDLE+DRAIN", "new memory on Monday")
    assert node_health_run.settle([], {**DECLARED, "resume": True}, slurm, note) == "leave"
    assert node_health_run.settle(["x"], DECLARED, slurm, note) == "leave"
    assert [words for words in slurm.asked if "update" in words] == []
    assert not note.exists()


def test_a_disk_that_takes_no_note_does_not_prevent_the_drain(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    slurm = Slurm()
    assert node_health_run.settle(["x"], DECLARED, slurm, tmp_path / "file" / "note") == "drain"


def test_disks_of_this_machine(tmp_path: Path) -> None:
    disk = node_health_run.disk_of(str(tmp_path))
    assert (disk.error, disk.read_only) == ("", False)
    assert disk.free_mb > 0
    assert node_health_run.disk_of(str(tmp_path / "nothing")).error == "No such file or directory"


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """The program as the role installs it, with nvidia-smi and scontrol of our own make in front."""
    package = tmp_path / "lib" / "busbar_node_health"
    for part, text in program_files(["slurm.node_health_run"]).items():
        (package / part).parent.mkdir(parents=True, exist_ok=True)
        (package / part).write_text(text)
    path = tmp_path / "lib" / "node_health"
    path.write_text((TOP / "roles/node_health/files/node_health").read_text())
    (tmp_path / "lib" / "node_health.json").write_text(json.dumps(DECLARED))
    (tmp_path / "query").write_text(log_xml(gpu_xml(0)))
    put(tmp_path / "bin" / "nvidia-smi", f"#!/bin/sh\ncat {tmp_path}/query\n")
    put(tmp_path / "bin" / "scontrol", f'#!/bin/sh\necho "$*" >> {tmp_path}/asked\necho "State=IDLE+DRAIN Reason=x"\n')
    return path


def put(path: Path, text: str) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


def run(program: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run it as slurmd does: apart, with the system's modules only."""
    command = [sys.executable, "-ISB", str(program), *arguments]
    environment = {"PATH": f"{program.parents[1] / 'bin'}{os.pathsep}/usr/bin:/bin"}
    return subprocess.run(command, check=False, capture_output=True, text=True, env=environment, timeout=60)


def test_the_installed_parts_are_all_that_it_takes(program: Path) -> None:
    done = run(program)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert not (program.parents[1] / "asked").exists()
    assert importlib.util.find_spec("busbar_node_health") is None


def test_a_look_tells_and_changes_nothing(program: Path) -> None:
    (program.parents[1] / "query").write_text(log_xml(gpu_xml(0), gpu_xml(1)))
    done = run(program, "--look")
    assert (done.returncode, done.stdout) == (1, "GPUs: 1 declared, 2 found\n")
    assert not (program.parents[1] / "asked").exists()


def test_a_sick_node_asks_slurm_and_still_ends_well(program: Path) -> None:
    (program.parents[1] / "query").write_text(log_xml(gpu_xml(0, memory="GPU is lost")))
    done = run(program)
    assert (done.returncode, done.stderr) == (0, "")
    assert "is lost" in done.stdout
    assert (program.parents[1] / "asked").read_text() == "show node gpu1\n"


def test_an_nvidia_smi_that_hangs_is_left_behind(program: Path) -> None:
    put(program.parents[1] / "bin" / "nvidia-smi", "#!/bin/sh\nsleep 600\n")
    program.with_suffix(".json").write_text(json.dumps({**DECLARED, "timeout_s": 1}))
    done = run(program, "--look")
    assert "nvidia-smi: fails: nvidia-smi did not answer in 1 s" in done.stdout


@pytest.mark.parametrize("settings", ["", "{}"])
def test_what_it_cannot_find_out_never_keeps_slurmd_from_starting(program: Path, settings: str) -> None:
    program.with_suffix(".json").write_text(settings)
    assert run(program, "--look").returncode == 1
    done = run(program)
    assert done.returncode == 0
    assert "the health of this node is not known" in done.stderr


def test_a_slurm_that_does_not_answer(program: Path) -> None:
    put(program.parents[1] / "bin" / "scontrol", "#!/bin/sh\necho Unable to contact slurm controller\nexit 1\n")
    (program.parents[1] / "query").write_text(log_xml())
    done = run(program)
    assert done.returncode == 0
    assert "Unable to contact slurm controller" in done.stderr


@pytest.fixture
def dcgm(program: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """DCGM beside nvidia-smi, running and not asked for anything yet; its state."""
    state = program.parents[1] / "dcgm"
    state.mkdir()
    (state / "running").touch()
    put(program.parents[1] / "bin" / "dcgmi", DCGMI.read_text(encoding="utf-8"))
    monkeypatch.setenv("SIMULATED_DCGM", str(state))
    return state


def look(program: Path, state: Path) -> tuple[int, str, str]:
    """What a look finds on a node with DCGM."""
    environment = {"PATH": f"{program.parents[1] / 'bin'}{os.pathsep}/usr/bin:/bin", "SIMULATED_DCGM": str(state)}
    command = [sys.executable, "-ISB", str(program), "--look"]
    done = subprocess.run(command, check=False, capture_output=True, text=True, env=environment, timeout=60)
    return done.returncode, done.stdout, done.stderr


def test_dcgm_is_told_to_watch_and_then_believed(program: Path, dcgm: Path) -> None:
    assert look(program, dcgm) == (0, "", "")
    assert (dcgm / "watches").read_text() == "a"
    assert look(program, dcgm) == (0, "", "")
    faults = {"0": {"PCIe system": ["Warning", "12 replays."], "Thermal system": ["Warning", "Hot."]}}
    (dcgm / "faults.json").write_text(json.dumps(faults))
    assert look(program, dcgm) == (1, "DCGM: GPU 0 PCIe system warning: 12 replays.\n", "")


def test_dcgm_that_does_not_answer_blames_nobody(program: Path, dcgm: Path) -> None:
    (dcgm / "running").unlink()
    status, said, aside = look(program, dcgm)
    assert (status, said) == (0, "")
    assert "unable to establish a connection to the specified host: 127.0.0.1:5555" in aside
    put(program.parents[1] / "bin" / "dcgmi", "#!/bin/sh\necho '{\"odd\": 1}'\n")
    status, said, aside = look(program, dcgm)
    assert (status, said) == (0, "")
    assert "DCGM is not understood" in aside


def test_dcgm_is_not_asked_where_that_is_not_wanted(program: Path, dcgm: Path) -> None:
    own = {**DECLARED, "dcgm": {"level": "never", "host": "127.0.0.1:5555"}}
    for declared in (own, {key: value for key, value in DECLARED.items() if key != "dcgm"}):
        (program.parent / "node_health.json").write_text(json.dumps(declared))
        assert look(program, dcgm) == (0, "", "")
    assert not (dcgm / "watches").exists()


def nhc(program: Path, *arguments: str) -> tuple[int, str]:
    """What the command nhc says, which calls the program where the role installs it."""
    text = (TOP / "roles/node_health/files/nhc").read_text(encoding="utf-8")
    place = program.parent / "nhc"
    put(
        place, text.replace("/usr/local/lib/busbar", str(program.parent)).replace("/usr/sbin/nhc", str(place) + ".lbnl")
    )
    (program).chmod(0o755)
    program.write_text(program.read_text().replace("#!/usr/bin/python3 -IB", f"#!{sys.executable} -IB"))
    environment = {"PATH": f"{program.parents[1] / 'bin'}{os.pathsep}/usr/bin:/bin"}
    done = subprocess.run(
        ["sh", str(place), *arguments], check=False, capture_output=True, text=True, env=environment, timeout=60
    )
    return done.returncode, done.stdout + done.stderr


def test_nhc_says_what_the_health_check_finds(program: Path) -> None:
    assert nhc(program) == (0, "")
    (program.parents[1] / "query").write_text(log_xml(gpu_xml(0), gpu_xml(1)))
    assert nhc(program, "-t", "60", "-a") == (1, "GPUs: 1 declared, 2 found\n")
    assert nhc(program, "-q") == (1, "")
    assert not (program.parents[1] / "asked").exists()


def test_nhc_of_lbnl_goes_first_and_its_own_checks_are_refused_without_it(program: Path) -> None:
    assert nhc(program, "-e", "check_fs_mount_rw") == (
        2,
        "nhc: -e is not for busbar's health check; its settings are node_health_* of the inventory\n",
    )
    put(program.parent / "nhc.lbnl", "#!/bin/sh\necho lbnl $*\n")
    assert nhc(program, "-e", "x") == (0, "lbnl -e x\n")
