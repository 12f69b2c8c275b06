"""Tests of counter rates, and of the counters stored between two health checks."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

import pytest
from ansible_collections.busbar.cluster.plugins.module_utils.health.check_runner import answers
from ansible_collections.busbar.cluster.plugins.module_utils.health.check_state import (
    State,
    read_state,
    reset_by_admin,
    with_answers,
    write_state,
)
from ansible_collections.busbar.cluster.plugins.module_utils.health.counter_rates import growth, kept, rate
from ansible_collections.busbar.cluster.plugins.module_utils.health.finding import RESET, Answer, Finding

if TYPE_CHECKING:
    from pathlib import Path

XID = Finding("xid", RESET, "GPU 0000:23:00: Xid 79", "reboot", "Xid 79 at 0000:23:00")


@pytest.mark.parametrize(
    ("samples", "expected"),
    [
        ([], 0.0),  # the value at the first check has no rate
        ([[880.0, 4.0]], 8.0),  # two minutes
        ([[998.0, 4.0]], 16.0),  # two seconds are not extrapolated
        ([[880.0, 0.0], [998.0, 19.0]], 10.0),  # over at least one minute
        ([[700.0, 500.0], [970.0, 2.0]], 18.0),  # reset in between
        ([[700.0, 500.0]], 0.0),  # reset since
    ],
)
def test_rates(samples: list[list[float]], expected: float) -> None:
    assert rate(samples, 1000.0, 20.0, 60.0) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("samples", "expected"),
    [
        ([], 0),
        ([[100.0, 1.0], [700.0, 2.0], [950.0, 4.0]], 3),
        ([[100.0, 1.0], [950.0, 5.0]], 5),
        ([[950.0, 9.0]], 0),
    ],
)
def test_growth_within_a_window(samples: list[list[float]], expected: float) -> None:
    assert growth(samples, 1000.0, 5.0 if len(samples) != 2 else 6.0, 200.0) == expected


def test_only_samples_of_the_window_are_kept() -> None:
    samples = {"a": [[100.0, 1.0], [700.0, 2.0], [950.0, 4.0]], "gone": [[100.0, 1.0]]}
    assert kept(samples, {"a": 5.0}, 1000.0, 200.0) == {"a": [[700.0, 2.0], [950.0, 4.0], [1000.0, 5.0]]}
    many = {"a": [[float(at), 1.0] for at in range(5000)]}
    assert len(kept(many, {"a": 2.0}, 5000.0, 9000.0)["a"]) < 500


def test_state_persists_and_events_end_with_the_boot(tmp_path: Path) -> None:
    path = tmp_path / "new" / "state.json"
    assert read_state(path, "one") == State("one")
    said = {"kernel": Answer(events=[XID]), "network": Answer(samples={"link_down eth0": 2.0})}
    state = with_answers(State("one", passes=1), said, 1000.0, 60.0)
    write_state(path, state)
    again = read_state(path, "one")
    assert (again.samples, again.events, again.log_since) == ({"link_down eth0": [[1000.0, 2.0]]}, [XID], 1000.0)
    assert len(with_answers(again, said, 1001.0, 60.0).events) == 1
    assert read_state(path, "two") == State("two", passes=1, rebooted=True)
    for damaged in ("", "[]", '{"boot": "one"}', '{"boot": "one", "samples": {"a": [1]}}'):
        path.write_text(damaged)
        assert read_state(path, "one") == State("one")


def test_counters_restart_after_an_admin_reset() -> None:
    flapped = State("one", {"link_down eth0": [[100.0, 2.0], [200.0, 5.0]], "gone": []}, [XID], passes=1)
    settled = reset_by_admin(flapped)
    assert settled == State("one", {"link_down eth0": [[200.0, 5.0]]}, passes=1)
    assert growth(settled.samples["link_down eth0"], 300.0, 5.0, 10800.0) == 0
    assert growth(settled.samples["link_down eth0"], 300.0, 8.0, 10800.0) == 3


def test_unread_log_is_read_at_the_next_check() -> None:
    state = with_answers(State("one", log_since=5.0), {"kernel": Answer(unknown="it failed")}, 1000.0, 60.0)
    assert state.log_since == 5.0


def test_checks_run_in_parallel_and_a_hanging_one_is_abandoned() -> None:
    def hang() -> Answer:
        time.sleep(600)
        return Answer()

    def fail() -> Answer:
        message = "no such thing"
        raise RuntimeError(message)

    def die() -> Answer:
        os._exit(3)

    began = time.monotonic()
    found = answers(
        {"hang": (hang, 0.5), "good": (lambda: Answer([XID], {"a": 1.0}), 30), "fail": (fail, 30), "die": (die, 30)}
    )
    assert time.monotonic() - began < 20
    assert found["hang"] is None
    assert found["good"] == Answer([XID], {"a": 1.0}, [], "")
    assert found["fail"] == Answer([], {}, [], "RuntimeError: no such thing")
    assert found["die"] == Answer(unknown="the check exited without a result")
