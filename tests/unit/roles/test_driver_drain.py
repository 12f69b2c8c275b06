"""A node is drained before its driver changes; with jobs, or if Slurm does not answer, nothing changes."""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING, Any

import pytest
from executables import executable
from plays import play_of, played
from templates import TOP

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    Play = Sequence[dict[str, Any]]

pytestmark = pytest.mark.slow

STAND_IN = TOP / "tests/fixtures/busy_slurm.py"
PROGRAMS = ("sinfo", "squeue", "scontrol")
IDLE, JOB = {"gpu1": ["idle", ""]}, ["gpu1", "R", "alice", "17"]
GO_ON = {"name": "Go on", "ansible.builtin.debug": {"msg": "changing, ours {{ __nvidia_driver_ours }}"}}
PLAY = play_of("nvidia_driver", "drain", GO_ON)


class Slurm:
    """A folder with stand-ins for Slurm's commands and their state."""

    def __init__(self, folder: Path) -> None:
        """Create the folder with an idle node and no jobs."""
        self.folder = folder
        self.say(nodes=IDLE, jobs=[])
        for name in PROGRAMS:
            executable(folder / name, f"#!{sys.executable}\n{STAND_IN.read_text(encoding='utf-8')}")

    def say(self, **known: Any) -> None:  # noqa: ANN401 - as JSON takes it
        """Write the state that the commands read."""
        for name, value in known.items():
            (self.folder / f"{name}.json").write_text(json.dumps(value), encoding="utf-8")

    def state(self) -> list[str]:
        """Return state and reason of the node."""
        found: list[str] = json.loads((self.folder / "nodes.json").read_text(encoding="utf-8"))["gpu1"]
        return found

    def calls(self, name: str) -> list[str]:
        """Return the calls of a command."""
        path = self.folder / "calls"
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        return [line for line in lines if line.startswith(f"{name} ")]

    def drain(
        self,
        *options: str,
        daemons: list[str],
        waits: bool = False,
        play: Sequence[dict[str, Any]] = PLAY,
        **more: object,
    ) -> tuple[int, str]:
        """Run the tasks; return the exit code and the output in one line."""
        given = {
            "__nvidia_driver_slurm_controller": "gpu1",
            "nvidia_driver_drain_timeout": 1,
            "__nvidia_driver_poll": 1,
            "__nvidia_driver_waits": waits,
            "__nvidia_driver_found": {"slurm": daemons},
            "__nvidia_driver_plan": {"version": "580.95.05"},
            **more,
        }
        return played(self.folder, play, "gpu1", *options, given=given, PATH=f"{self.folder}:{os.environ['PATH']}")


@pytest.fixture
def slurm(tmp_path: Path) -> Slurm:
    return Slurm(tmp_path)


BOTH, NODE_ONLY = ["slurmd", "slurmstepd"], ["slurmd"]


def test_idle_node_is_drained_and_the_change_continues(slurm: Slurm) -> None:
    code, told = slurm.drain(daemons=NODE_ONLY)
    assert (code, "changing, ours True" in told) == (0, True), told
    assert slurm.state() == ["drained", "busbar: NVIDIA driver 580.95.05 waits for a reboot"]


@pytest.mark.parametrize(("state", "options"), [("R", []), ("R", ["--check"]), ("CF", [])])
def test_node_with_jobs_is_refused_and_the_jobs_are_named(slurm: Slurm, state: str, options: list[str]) -> None:
    slurm.say(jobs=[["gpu1", state, "alice", "17"], ["gpu2", "R", "bob", "18"]])
    code, told = slurm.drain(*options, daemons=BOTH)
    assert code == 2, told
    assert "gpu1: its NVIDIA driver was not changed to 580.95.05: job 17 of alice. Set -e nvidia_driver_reboot=" in told
    assert slurm.calls("scontrol") == [], "the node is as it was"


def test_check_mode_drains_nothing(slurm: Slurm) -> None:
    code, told = slurm.drain("--check", daemons=NODE_ONLY)
    assert (code, slurm.calls("scontrol")) == (0, []), told


def test_node_is_resumed_if_a_job_started_before_the_drain(slurm: Slurm) -> None:
    slurm.say(late_jobs=[JOB])
    code, told = slurm.drain(daemons=NODE_ONLY)
    assert code == 2, told
    assert "gpu1: job 17 of alice still there when it was drained; nothing was changed" in told
    assert slurm.state() == ["idle", ""]


def test_node_is_resumed_if_jobs_outlast_the_timeout(slurm: Slurm) -> None:
    slurm.say(jobs=[JOB])
    code, told = slurm.drain(daemons=BOTH, waits=True)
    assert code == 2, told
    assert "gpu1: job 17 of alice still there after 1 s; nothing was changed, and the node is in service" in told
    assert slurm.state() == ["idle", ""]


def test_unreachable_slurmctld_is_not_taken_as_no_jobs(slurm: Slurm) -> None:
    (slurm.folder / "down").touch()
    code, told = slurm.drain(daemons=NODE_ONLY, waits=True)
    assert code == 2, told
    assert "gpu1: its NVIDIA driver was not changed: slurmd is running, but sinfo failed: slurm_load_sinfo:" in told
    assert "Start slurmctld on gpu1, or stop slurmd on the node" in told


def test_cluster_without_slurm_has_no_jobs(slurm: Slurm) -> None:
    for name in PROGRAMS:
        (slurm.folder / name).unlink()
    code, told = slurm.drain(daemons=[])
    assert (code, "changing, ours False" in told) == (0, True), told


def test_job_steps_on_a_node_unknown_to_slurm_stop_the_change(slurm: Slurm) -> None:
    slurm.say(nodes={"gpu9": ["idle", ""]})
    code, told = slurm.drain(daemons=BOTH)
    assert (code, "slurmstepd is running, but Slurm has no node of this name" in told) == (2, True), told


def test_drain_of_an_admin_is_kept(slurm: Slurm) -> None:
    slurm.say(nodes={"gpu1": ["drained", "cable, Meyer"]})
    code, told = slurm.drain(daemons=NODE_ONLY)
    assert (code, "changing, ours False" in told) == (0, True), told
    assert slurm.state() == ["drained", "cable, Meyer"]


RACK_PLAY = play_of("nvidia_driver", "rack", {"name": "Go on", "ansible.builtin.debug": {"msg": "restarting IMEX"}})


@pytest.mark.parametrize(
    ("members", "jobs", "daemons", "words"),
    [
        (["gpu1"], [], NODE_ONLY, ""),
        (["gpu1"], [["gpu[5-8]", "R", "bob", "18"]], NODE_ONLY, ""),
        # A job on another tray of the rack would keep an IMEX with the former list.
        (["gpu1", "gpu7"], [["gpu[5-8]", "R", "bob", "18"]], NODE_ONLY, "job 18 of bob on gpu7. Drain gpu1,gpu7"),
        (["gpu1", "gpu7"], [], NODE_ONLY, "gpu7 is not part of this run"),
        (["gpu1"], None, NODE_ONLY, "squeue fails: slurm_load_squeue: error: Unable to contact slurm controller"),
        # Slurm is not installed yet.
        (["gpu1"], None, [], ""),
    ],
)
def test_imex_is_restarted_only_in_a_complete_rack_without_jobs(
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


def test_imex_is_not_restarted_on_a_node_with_jobs(slurm: Slurm) -> None:
    slurm.say(jobs=[JOB])
    plan = {"version": "580.95.05", "moves": False, "imex_moves": True}
    code, told = slurm.drain(daemons=BOTH, __nvidia_driver_plan=plan)
    assert code == 2, told
    assert "gpu1: the IMEX members were not updated, because that would restart IMEX while jobs run: job 17" in told
