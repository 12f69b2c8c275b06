"""Tests of following jobs until they end, until their deadline, or as long as the caller waits."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from ansible_collections.busbar.cluster.plugins.module_utils.slurm import job_runner
from fake_clock import FakeClock

ASKED = {"user": "root", "home": "/root", "share": False, "poll": 1.0, "wait": 60, "time_limit": 600}
LATE = 1e9


class Slurm(FakeClock):
    """Jobs with given seconds in the queue and on nodes, and a clock that only sleep advances."""

    def __init__(self, jobs: dict[str, tuple[float, float]], *, silent: bool = False, down: bool = False) -> None:
        """Store the jobs."""
        self.now = 5000.0
        self.jobs = jobs
        self.silent = silent
        self.down = down
        self.asked: list[tuple[str, ...]] = []
        self.cancelled: dict[str, float] = {}

    def run_command(self, command: list[str], **_more: object) -> tuple[int, str, str]:
        """Answer a Slurm command."""
        words = tuple(command[2:])
        self.asked.append(words)
        if self.silent:
            self.now += 20
            return 124, "", ""
        if self.down:
            return 1, "", "slurm_load_jobs error: Unable to contact slurm controller (connect failure)"
        if words[0] == "scancel":
            self.cancelled |= dict.fromkeys(words[1:], self.now - 5000)
        if words[0] == "squeue" and "-j" in words:
            return 0, "".join(self._line(job) for job in words[words.index("-j") + 1].split(",")), ""
        if words[0] == "scontrol":
            return 0, f"JobId={words[-1]} JobState=COMPLETED ExitCode=0:0 BatchHost=gpu1\n", ""
        return 0, "", ""

    def _line(self, job: str) -> str:
        pending, seconds = self.jobs[job]
        passed = self.now - 5000
        state = "PENDING" if passed < pending else "RUNNING" if passed < pending + seconds else "COMPLETED"
        return f"{job}|{state}|{'n/a' if state == 'PENDING' else 'gpu1'}|Resources\n"


def followed(monkeypatch: pytest.MonkeyPatch, slurm: Slurm, **asked: Any) -> dict[str, dict[str, Any]]:  # noqa: ANN401
    monkeypatch.setattr(job_runner, "time", slurm)
    blank: dict[str, Any] = {"nodes": ["gpu1"], "state": "", "batch_host": "", "seconds": 0.0}
    blank |= {"submitted_at": 5000.0, "started_at": 0.0}
    jobs = [{"name": f"test-{job}", "job_id": job, **blank} for job in slurm.jobs]
    params = ASKED | {"jobs": jobs, "left": None, "patience": LATE} | asked
    runner = job_runner.Runner(SimpleNamespace(params=params, run_command=slurm.run_command))
    return {entry["job_id"]: entry for entry in runner.follow()}


def test_all_jobs_are_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    found = followed(monkeypatch, Slurm({"1": (0, 10), "2": (5, 30)}))
    assert {entry["state"] for entry in found.values()} == {"COMPLETED"}
    assert all(entry["over"] and not entry["problem"] and entry["batch_host"] == "gpu1" for entry in found.values())
    assert found["2"]["seconds"] == pytest.approx(30, abs=1.1)


def test_expired_patience_ends_the_call_but_no_job(monkeypatch: pytest.MonkeyPatch) -> None:
    slurm = Slurm({"1": (0, 2), "2": (0, LATE)})
    found = followed(monkeypatch, slurm, patience=10)
    assert slurm.now - 5000 == pytest.approx(10, abs=1.1)
    assert {job: entry["over"] for job, entry in found.items()} == {"1": True, "2": False}
    assert slurm.cancelled == {}


@pytest.mark.parametrize(
    ("job", "asked", "ended", "problem"),
    [
        ((0, LATE), {"left": 100.0}, 100, "cut off: the time limit of the validation was reached"),
        (
            (LATE, 1),
            {"left": 30.0},
            30,
            "cut off: the time limit of the validation was reached, and the job had not begun (Resources)",
        ),
        ((LATE, 1), {"left": 100.0}, 60, "did not start within 60 s: Resources"),
        ((50, LATE), {"left": 100.0}, 100, "cut off: the time limit of the validation was reached"),
        ((0, LATE), {"time_limit": 20, "left": 100.0}, 20, "did not finish within 20 s and was cancelled"),
    ],
)
def test_late_jobs_are_cancelled_at_once_and_reported(
    monkeypatch: pytest.MonkeyPatch, job: tuple[float, float], asked: dict[str, float], ended: float, problem: str
) -> None:
    slurm = Slurm({"7": job})
    found = followed(monkeypatch, slurm, **asked)
    assert found["7"]["problem"] == problem
    assert slurm.cancelled == {"7": pytest.approx(ended, abs=1.1)}


def test_late_jobs_are_cancelled_by_one_command(monkeypatch: pytest.MonkeyPatch) -> None:
    slurm = Slurm({str(number): (0, LATE) for number in range(1, 9)})
    followed(monkeypatch, slurm, left=50.0)
    assert [words for words in slurm.asked if words[0] == "scancel"] == [("scancel", *slurm.jobs)]


def test_unresponsive_daemon_is_queried_only_once(monkeypatch: pytest.MonkeyPatch) -> None:
    slurm = Slurm({str(number): (0, LATE) for number in range(1, 9)}, silent=True)
    found = followed(monkeypatch, slurm, patience=5, left=10.0)
    assert len(slurm.asked) == 1
    assert slurm.now - 5000 <= 21
    # The state of the jobs is unknown, and no job was cancelled.
    assert {(entry["problem"], entry["over"]) for entry in found.values()} == {("", False)}


@pytest.mark.parametrize("asked", [{"wait": 3}, {"left": 5.0}, {"time_limit": 2}])
def test_stopped_daemon_cancels_and_blames_no_job(monkeypatch: pytest.MonkeyPatch, asked: dict[str, float]) -> None:
    found = followed(monkeypatch, Slurm({"1": (0, LATE)}, down=True), patience=20, **asked)
    assert (found["1"]["problem"], found["1"]["over"]) == ("", False)


@pytest.mark.parametrize(("left", "minutes"), [(None, 11), (100.0, 2), (60.0, 1), (1.5, 1), (0.0, None), (1e6, 11)])
def test_job_time_limit_does_not_exceed_the_remaining_time(
    monkeypatch: pytest.MonkeyPatch, left: float | None, minutes: int | None
) -> None:
    params = ASKED | {"left": left}
    runner = job_runner.Runner(SimpleNamespace(params=params))
    asked: list[str] = []

    def ask(*words: str, **_more: object) -> tuple[int, str, str]:
        asked.extend(words)
        return 0, "7\n", ""

    monkeypatch.setattr(runner, "ask", ask)
    test = {"name": "x", "nodes": ["gpu1"], "candidates": [], "partners": 0, "minimum": 1}
    entry = runner.submit(test | {"script": "", "arguments": [], "output": "/x"}, {"gpu1": ("idle", "")})
    assert [word for word in asked if word.startswith("--time=")] == ([f"--time={minutes}"] if minutes else [])
    assert entry["problem"].startswith("cut off: the time limit of the validation was reached") is (minutes is None)
    assert entry["over"] is (minutes is None)
