"""Before its driver is changed a node is taken out of service; with jobs, or when nobody can tell, nothing changes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

TOP = Path(__file__).resolve().parents[3]
STAND_IN = TOP / "tests/fixtures/busy_slurm.py"
PROGRAMS = ("sinfo", "squeue", "scontrol")
IDLE, JOB = {"gpu1": ["idle", ""]}, ["gpu1", "R", "alice", "17"]
PLAY = [
    {
        "hosts": "gpu1",
        "gather_facts": False,
        "tasks": [
            {
                "name": "Drain",
                "ansible.builtin.include_role": {"name": "busbar.cluster.nvidia_driver", "tasks_from": "drain"},
            },
            {"name": "Go on", "ansible.builtin.debug": {"msg": "changing, ours {{ __nvidia_driver_ours }}"}},
        ],
    }
]


class Slurm:
    """A folder with stand-ins for Slurm's commands, and what they know."""

    def __init__(self, folder: Path) -> None:
        """Make the folder, with an idle node and no jobs."""
        self.folder = folder
        self.say(nodes=IDLE, jobs=[])
        for name in PROGRAMS:
            program = folder / name
            program.write_text(f"#!{sys.executable}\n{STAND_IN.read_text(encoding='utf-8')}", encoding="utf-8")
            program.chmod(0o755)

    def say(self, **known: Any) -> None:  # noqa: ANN401 - as JSON takes it
        """Write what the commands know."""
        for name, value in known.items():
            (self.folder / f"{name}.json").write_text(json.dumps(value), encoding="utf-8")

    def state(self) -> list[str]:
        """Return state and reason of the node."""
        found: list[str] = json.loads((self.folder / "nodes.json").read_text(encoding="utf-8"))["gpu1"]
        return found

    def calls(self, name: str) -> list[str]:
        """Return how a command was called."""
        path = self.folder / "calls"
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        return [line for line in lines if line.startswith(f"{name} ")]

    def drain(
        self, *options: str, daemons: list[str], waits: bool = False, play: object = PLAY, **more: object
    ) -> tuple[int, str]:
        """Run the tasks; return the exit code and what was told, in one line."""
        (self.folder / "play.yml").write_text(yaml.safe_dump(play), encoding="utf-8")
        given = {
            "ansible_connection": "local",
            "ansible_python_interpreter": sys.executable,
            "__nvidia_driver_slurm_controller": "gpu1",
            "nvidia_driver_drain_timeout": 1,
            "__nvidia_driver_poll": 1,
            "__nvidia_driver_waits": waits,
            "__nvidia_driver_found": {"slurm": daemons},
            "__nvidia_driver_plan": {"version": "580.95.05"},
            **more,
        }
        program = str(Path(sys.executable).with_name("ansible-playbook"))
        command = [program, "-i", "gpu1,", "play.yml", "-e", json.dumps(given), *options]
        environment = os.environ | {
            "ANSIBLE_COLLECTIONS_PATH": str(TOP / ".collections"),
            "ANSIBLE_LOCALHOST_WARNING": "false",
            "ANSIBLE_NOCOLOR": "1",
            "ANSIBLE_HOME": str(self.folder / "ansible"),
            "PATH": f"{self.folder}:{os.environ['PATH']}",
        }
        done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=self.folder, env=environment)
        return done.returncode, " ".join((done.stdout + done.stderr).split())


@pytest.fixture
def slurm(tmp_path: Path) -> Slurm:
    return Slurm(tmp_path)


BOTH, NODE_ONLY = ["slurmd", "slurmstepd"], ["slurmd"]


def test_a_free_node_is_drained_and_the_change_goes_on(slurm: Slurm) -> None:
    code, told = slurm.drain(daemons=NODE_ONLY)
    assert (code, "changing, ours True" in told) == (0, True), told
    assert slurm.state() == ["drained", "busbar: NVIDIA driver 580.95.05 waits for a reboot"]


@pytest.mark.parametrize(("state", "options"), [("R", []), ("R", ["--check"]), ("CF", [])])
def test_a_node_with_jobs_is_refused_and_they_are_named(slurm: Slurm, state: str, options: list[str]) -> None:
    slurm.say(jobs=[["gpu1", state, "alice", "17"], ["gpu2", "R", "bob", "18"]])
    code, told = slurm.drain(*options, daemons=BOTH)
    assert code == 2, told
    assert "gpu1: its NVIDIA driver was not changed to 580.95.05: job 17 of alice. Set -e nvidia_driver_reboot=" in told
    assert slurm.calls("scontrol") == [], "the node is as it was"


def test_check_mode_drains_nothing(slurm: Slurm) -> None:
    code, told = slurm.drain("--check", daemons=NODE_ONLY)
    assert (code, slurm.calls("scontrol")) == (0, []), told


def test_a_job_that_began_meanwhile_puts_the_node_back(slurm: Slurm) -> None:
    slurm.say(late_jobs=[JOB])
    code, told = slurm.drain(daemons=NODE_ONLY)
    assert code == 2, told
    assert "gpu1: job 17 of alice still there when it was drained; nothing was changed" in told
    assert slurm.state() == ["idle", ""]


def test_jobs_that_outlast_the_patience_put_the_node_back(slurm: Slurm) -> None:
    slurm.say(jobs=[JOB])
    code, told = slurm.drain(daemons=BOTH, waits=True)
    assert code == 2, told
    assert "gpu1: job 17 of alice still there after 1 s; nothing was changed and the node is in service" in told
    assert slurm.state() == ["idle", ""]


def test_a_slurmctld_that_is_silent_has_not_said_that_there_are_no_jobs(slurm: Slurm) -> None:
    (slurm.folder / "down").touch()
    code, told = slurm.drain(daemons=NODE_ONLY, waits=True)
    assert code == 2, told
    assert "gpu1: its NVIDIA driver was not changed: slurmd runs on it, and sinfo fails: slurm_load_sinfo:" in told
    assert "Start slurmctld on gpu1, or stop slurmd on the node" in told


def test_a_cluster_that_is_only_being_made_has_no_jobs(slurm: Slurm) -> None:
    for name in PROGRAMS:
        (slurm.folder / name).unlink()
    code, told = slurm.drain(daemons=[])
    assert (code, "changing, ours False" in told) == (0, True), told


def test_steps_of_a_node_unknown_to_slurm_belong_to_a_user(slurm: Slurm) -> None:
    slurm.say(nodes={"gpu9": ["idle", ""]})
    code, told = slurm.drain(daemons=BOTH)
    assert (code, "slurmstepd runs on it, and Slurm has no node of this name" in told) == (2, True), told


def test_an_admins_drain_stays(slurm: Slurm) -> None:
    slurm.say(nodes={"gpu1": ["drained", "cable, Meyer"]})
    code, told = slurm.drain(daemons=NODE_ONLY)
    assert (code, "changing, ours False" in told) == (0, True), told
    assert slurm.state() == ["drained", "cable, Meyer"]


RACK_PLAY = [
    {
        "hosts": "gpu1",
        "gather_facts": False,
        "tasks": [
            {
                "name": "Look at the rack",
                "ansible.builtin.include_role": {"name": "busbar.cluster.nvidia_driver", "tasks_from": "rack"},
            },
            {"name": "Go on", "ansible.builtin.debug": {"msg": "restarting IMEX"}},
        ],
    }
]


@pytest.mark.parametrize(
    ("members", "jobs", "daemons", "words"),
    [
        (["gpu1"], [], NODE_ONLY, ""),
        (["gpu1"], [["gpu[5-8]", "R", "bob", "18"]], NODE_ONLY, ""),
        # A job on another tray of the rack: its IMEX would be left with the former list.
        (["gpu1", "gpu7"], [["gpu[5-8]", "R", "bob", "18"]], NODE_ONLY, "job 18 of bob on gpu7. Drain gpu1,gpu7"),
        (["gpu1", "gpu7"], [], NODE_ONLY, "gpu7 of it are not part of this run"),
        (["gpu1"], None, NODE_ONLY, "squeue fails: slurm_load_squeue: error: Unable to contact slurm controller"),
        # The cluster is only being made.
        (["gpu1"], None, [], ""),
    ],
)
def test_imex_is_started_anew_in_a_whole_rack_without_jobs(
    slurm: Slurm, members: list[str], jobs: list[list[str]] | None, daemons: list[str], words: str
) -> None:
    if jobs is None:
        (slurm.folder / "down").touch()
    else:
        slurm.say(jobs=jobs)
    rack = {"rack1": {"hosts": members, "addresses": ["10.0.0.1"]}}
    code, told = slurm.drain(daemons=daemons, play=RACK_PLAY, nvlink_domain="rack1", __nvidia_driver_racks=rack)
    assert (code, "restarting IMEX" in told) == ((2, False) if words else (0, True)), told
    assert words in told
    assert slurm.calls("scontrol") == []


def test_a_node_with_jobs_keeps_its_imex(slurm: Slurm) -> None:
    slurm.say(jobs=[JOB])
    plan = {"version": "580.95.05", "moves": False, "imex_moves": True}
    code, told = slurm.drain(daemons=BOTH, __nvidia_driver_plan=plan)
    assert code == 2, told
    assert "gpu1: the IMEX members were not updated, because that would restart IMEX while jobs run: job 17" in told
