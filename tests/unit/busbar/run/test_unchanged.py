"""When a run is left out, when it is not, and what is said of that."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.busbar.cluster.plugins.plugin_utils.last_run import read, record_of
from busbar.paths import collection
from busbar.run.events import Run
from busbar.run.playbook import Playbook
from busbar.run.unchanged import LastRun, why_due

if TYPE_CHECKING:
    from pathlib import Path

DAY_S = 24 * 3600
INPUTS = {"secrets/munge.key": "a", "the options": "b"}


class Silent:
    """A display that shows nothing."""

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - stands for any method
        """Return what does nothing."""
        return lambda *_: None


@pytest.fixture
def playbook(tmp_path: Path) -> Playbook:
    (tmp_path / "inventory").mkdir()
    (tmp_path / "inventory/hosts.yml").write_text("all: {hosts: {ctl: {}, gpu1: {}}}\n")
    return Playbook(collection() / "playbooks/site.yml", [str(tmp_path / "inventory")], [])


def ended(playbook: Playbook, *options: str, **counts: dict[str, int]) -> str:
    """Let a full run of both hosts end; returns what is said of its record."""
    playbook.options[:] = options
    run = Run(Silent(), lambda _: 2)
    run.stats = {"ok": {"ctl": 1, "gpu1": 1}, "failures": {}, "dark": {}, "changed": {}, **counts}
    with LastRun(playbook, wanted=True).recorded(playbook) as recording:
        return recording.keep(run, 0)


def probed(**drift: str) -> Run:
    run = Run(Silent(), lambda _: 2)
    run.custom = {"busbar_drift": drift}
    return run


def recorded(playbook: Playbook) -> LastRun:
    """One that has a record of two hosts."""
    assert ended(playbook) == ""
    path = record_of(playbook.inventory[0]) / "record.json"
    path.write_text(json.dumps(read(path.parent) | {"hosts": ["ctl", "gpu1", "localhost"]}))
    return LastRun(playbook, wanted=True)


@pytest.mark.parametrize(
    ("about", "clock", "said"),
    [
        ({}, 100, "no full run before this one changed nothing"),
        ({"inputs": INPUTS, "ended": 100}, 100 + 7 * DAY_S - 1, ""),
        ({"inputs": INPUTS, "ended": 100}, 100 + 7 * DAY_S, "the last full run is older than 7 days"),
        ({"inputs": INPUTS, "ended": 100}, 99, "the last full run is older than 7 days"),
        ({"inputs": INPUTS, "ended": 100, "due": 150}, 149, ""),
        ({"inputs": INPUTS, "ended": 100, "due": 150}, 150, "a certificate is to be renewed"),
        ({"inputs": INPUTS | {"x": "y"}, "ended": 100}, 100, "x changed since the last full run"),
        ({"inputs": {}, "ended": 100}, 100, "secrets/munge.key and 1 more changed since the last full run"),
    ],
)
def test_why_a_full_run_is_due(about: dict[str, Any], clock: float, said: str) -> None:
    assert why_due(about, INPUTS, clock) == said


def test_the_first_run_is_a_full_one_and_one_without_a_change_leaves_a_record(playbook: Playbook) -> None:
    first = LastRun(playbook, wanted=True)
    assert first.probe is None
    assert first.why_full == "no full run before this one changed nothing"
    assert ended(playbook) == ""
    then = LastRun(playbook, wanted=True)
    assert then.why_full == ""
    assert then.probe is not None
    assert then.probe.path.name == "unchanged.yml"
    assert f"last_run_record={record_of(playbook.inventory[0])}" in then.probe.options


@pytest.mark.parametrize("counts", ["changed", "failures", "dark", "rescued", "ignored"])
def test_a_run_that_changed_or_missed_anything_leaves_none(playbook: Playbook, counts: str) -> None:
    assert ended(playbook, **{counts: {"gpu1": 1}}) == ""
    assert read(record_of(playbook.inventory[0])) == {}


def test_a_run_that_missed_a_host_leaves_none(playbook: Playbook) -> None:
    assert ended(playbook, ok={"ctl": 1}) == ""
    assert read(record_of(playbook.inventory[0])) == {}


def test_a_run_whose_inputs_changed_meanwhile_leaves_none(playbook: Playbook, tmp_path: Path) -> None:
    run = Run(Silent(), lambda _: 2)
    run.stats = {"ok": {"ctl": 1, "gpu1": 1}, "changed": {}}
    with LastRun(playbook, wanted=True).recorded(playbook) as recording:
        (tmp_path / "secrets").mkdir()
        (tmp_path / "secrets/munge.key").write_text("new")
        assert recording.keep(run, 0) == f"{tmp_path}/secrets/munge.key changed while it ran"
    assert read(record_of(playbook.inventory[0])) == {}


@pytest.mark.parametrize(
    "options",
    [("--limit", "gpu1"), ("-t", "slurm"), ("-C",), ("--check",), ("--start-at-task", "x"), ("--list-tasks",)],
)
def test_a_run_of_a_part_is_never_left_out_and_leaves_none(playbook: Playbook, options: tuple[str, ...]) -> None:
    recorded(playbook)
    playbook.options[:] = options
    last = LastRun(playbook, wanted=True)
    assert not last.concerned
    assert last.probe is None
    with last.recorded(playbook) as recording:
        assert recording.playbook.environment == {}


def test_who_wants_a_full_run_gets_one_that_leaves_a_record(playbook: Playbook) -> None:
    recorded(playbook)
    last = LastRun(playbook, wanted=False)
    assert last.probe is None
    assert last.why_full == "--no-fast"
    with last.recorded(playbook) as recording:
        assert set(recording.playbook.environment) == {"BUSBAR_RECORDING"}


def test_hosts_that_are_unchanged_are_named_with_the_time(playbook: Playbook) -> None:
    last = recorded(playbook)
    lines = last.judge(probed(ctl="", gpu1="", localhost=""), 0)
    today = time.strftime("%Y-%m-%d")
    assert len(lines) == 1
    assert lines[0].startswith(f"ctl,gpu1: unchanged since {today} ")
    assert lines[0].endswith("(full run), nothing drifted: skipped; --no-fast runs all of it")
    assert last.unchanged
    assert last.rest is not None
    assert last.rest.path.name == "put_into_service.yml"
    with last.recorded(playbook) as recording:
        assert recording.playbook == last.rest


@pytest.mark.parametrize(
    ("drift", "returned", "said"),
    [
        ({"ctl": "", "gpu1": "ssh : Write: would change something", "localhost": ""}, 0, "gpu1: ssh : Write: would"),
        ({"ctl": "", "localhost": ""}, 0, "gpu1: no answer"),
        ({"ctl": "", "gpu1": "", "localhost": "files: would change something"}, 0, "localhost: files"),
        ({"ctl": "", "gpu1": "", "localhost": ""}, 4, "the look at the hosts failed"),
        ({}, 2, "ctl: no answer"),
    ],
)
def test_one_host_that_drifted_or_did_not_answer_makes_it_a_full_run(
    playbook: Playbook, drift: dict[str, str], returned: int, said: str
) -> None:
    last = recorded(playbook)
    last.judge(probed(**drift), returned)
    assert last.why_full.startswith(said)
    assert not last.unchanged
    with last.recorded(playbook) as recording:
        assert recording.playbook.path == playbook.path


def test_without_a_validation_nothing_is_left_to_do(playbook: Playbook) -> None:
    assert ended(playbook, "--skip-tags", "x,validation") == ""
    last = LastRun(playbook, wanted=True)
    last.judge(probed(), 0)
    assert last.rest is None
