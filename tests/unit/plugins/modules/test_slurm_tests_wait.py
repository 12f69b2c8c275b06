"""Tests of how long a test waits for its nodes; it waits for other users' jobs only on request."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from ansible_collections.busbar.cluster.plugins.module_utils.slurm import job_runner
from fake_clock import FakeClock

WAIT = 60
# The user who runs the tests; root exists on every machine.
ROOT = {"user": "root", "home": "/root"}


def _waited(  # noqa: PLR0913 - options of the module
    monkeypatch: pytest.MonkeyPatch,
    states: str,
    *,
    wait_for_jobs: bool,
    waited: float = 0.0,
    left: float | None = None,
    patience: float = 1000.0,
) -> tuple[float, dict[str, str]]:
    clock = FakeClock()
    monkeypatch.setattr(job_runner, "time", clock)
    params = {
        "tests": [{"nodes": ["gpu1", "gpu2"]}],
        "wait": WAIT,
        "wait_for_jobs": wait_for_jobs,
        "share": False,
        **ROOT,
        "poll": 0.5,
        "waited": waited,
        "left": left,
        "patience": patience,
    }
    runner = job_runner.Runner(SimpleNamespace(params=params))
    monkeypatch.setattr(runner, "ask", lambda *_: (int(not states), states, ""))
    nodes, waits_for = runner.wait_for_nodes()
    assert set(nodes) == ({"gpu1", "gpu2"} if states else set())
    return clock.now - FakeClock.now, waits_for


@pytest.mark.parametrize(
    ("first", "second", "wait_for_jobs", "seconds"),
    [
        ("idle", "idle", True, 0),
        ("idle", "mixed", True, WAIT),
        ("allocated", "mixed", True, WAIT),
        ("idle", "mixed", False, 3),
        ("allocated", "mixed", False, 3),
        ("allocated", "drained", False, 3),
        ("idle", "drained", False, 0),
        # Such nodes become idle by themselves, and no user works on them.
        ("mixed", "completing", False, WAIT),
        ("mixed", "idle*", False, WAIT),
        ("idle", "down", False, WAIT),
    ],
)
def test_wait_depends_on_the_state_of_the_nodes(
    monkeypatch: pytest.MonkeyPatch, first: str, second: str, seconds: float, *, wait_for_jobs: bool
) -> None:
    states = f"gpu1|{first}|none\ngpu2|{second}|none\n"
    took, waits_for = _waited(monkeypatch, states, wait_for_jobs=wait_for_jobs)
    assert took == pytest.approx(seconds, abs=1)
    assert waits_for == {}


@pytest.mark.parametrize(
    ("options", "seconds", "waits_for"),
    [
        ({"patience": 5}, 5, {"gpu2": "not idle: mixed"}),
        ({"patience": 5, "waited": 50}, 5, {"gpu2": "not idle: mixed"}),
        ({"patience": 5, "waited": 58}, 2, {}),
        ({"left": 20.0}, 20, {}),
        ({"left": 20.0, "patience": 5}, 5, {"gpu2": "not idle: mixed"}),
        ({"left": 20.0, "waited": 50}, 10, {}),
        ({"left": 0.0}, 0, {}),
    ],
)
def test_wait_returns_after_its_patience_or_the_remaining_time(
    monkeypatch: pytest.MonkeyPatch, options: dict[str, float], seconds: float, waits_for: dict[str, str]
) -> None:
    states = "gpu1|idle|none\ngpu2|mixed|none\n"
    took, found = _waited(monkeypatch, states, wait_for_jobs=True, **options)
    assert took == pytest.approx(seconds, abs=1)
    assert found == waits_for


@pytest.mark.parametrize(
    ("state", "queue", "busy", "left_out"),
    [
        ("mixed", "11|alice\n", {"gpu1": "job 11 of alice"}, "not idle: mixed, job 11 of alice"),
        ("completing", "11|alice\n", {}, "not idle: completing, job 11 of alice"),
        ("allocated", "", {}, "not idle: allocated"),
        ("drained", "11|alice\n", {}, "drained"),
    ],
)
def test_node_is_busy_only_with_a_running_job(
    monkeypatch: pytest.MonkeyPatch, state: str, queue: str, busy: dict[str, str], left_out: str
) -> None:
    runner = job_runner.Runner(SimpleNamespace(params={"share": False, "left": None, **ROOT}))
    monkeypatch.setattr(runner, "ask", lambda *_: (0, queue, ""))
    test = {"name": "node-gpu1", "nodes": ["gpu1"], "candidates": [], "partners": 0, "minimum": 1}
    entry = runner.submit(test, {"gpu1": (state, "")})
    assert (entry["busy"], entry["left_out"], entry["job_id"]) == (busy, {"gpu1": left_out}, "")


def test_unresponsive_controller_is_named_in_the_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    took, waits_for = _waited(monkeypatch, "", wait_for_jobs=False, patience=5)
    assert took == pytest.approx(5, abs=1)
    assert waits_for == dict.fromkeys(("gpu1", "gpu2"), "slurmctld does not answer")
