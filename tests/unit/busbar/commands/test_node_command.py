"""Tests of `busbar node`: its queries, output and exit codes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from busbar.cli import main
from busbar.run import site as site_module
from report_samples import small

if TYPE_CHECKING:
    from pathlib import Path

    from busbar.run.events import Run
    from busbar.run.playbook import Playbook

HOSTS = "all: {children: {slurm_controller: {hosts: {ctl: }}, slurm_compute: {hosts: {gpu1: , gpu3: }}}}\n"
TAGS = ["--tags", "node_history"]
STATE = {"state": "drained", "flags": "IDLE+DRAIN", "reason": "new memory", "by": "root", "since": 5, "booted": 5}
SLURM: dict[str, Any] = {
    "nodes": {name: {**STATE, "version": "24.11.5"} for name in ("gpu1", "gpu3")},
    "events": None,
    "jobs": None,
    "problems": {"events": "sacctmgr is not installed", "jobs": "sacct is not installed"},
}
MACHINE = {"gpu3": {"parts": [], "versions": {"kernel": "6.1"}, "booted": 9, "history": [], "problems": {}}}


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """Return a site with a readable and an unreadable report."""
    (tmp_path / "inventory").mkdir()
    (tmp_path / "inventory" / "hosts.yml").write_text(HOSTS)
    for name, text in (("20261120T080000Z", json.dumps(small(slow=0.3))), ("20261121T080000Z", "{")):
        (tmp_path / "reports" / name).mkdir(parents=True)
        (tmp_path / "reports" / name / "report.json").write_text(text)
    return tmp_path


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Return the answers of the hosts, which also record the options of the query."""
    given: dict[str, Any] = {"busbar_node_slurm": SLURM, "busbar_node_machine": MACHINE}

    def fake(playbook: Playbook, run: Run, log: Path) -> tuple[int, bool]:
        assert (playbook.path.name, log.parent.name) == ("describe.yml", "logs")
        given["options"] = playbook.options
        run.tasks, run.custom = 3, {key: each for key, each in given.items() if key.startswith("busbar_")}
        return 0, False

    monkeypatch.setattr(site_module, "run_playbook", fake)
    return given


def run(site: Path, *words: str) -> int:
    return main(["node", *words, "-i", str(site / "inventory")])


def test_node_is_shown_with_its_history(
    site: Path, answers: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(site, "show", "gpu3") == 0
    lines = capsys.readouterr().out.splitlines()
    assert answers["options"] == [*TAGS, "-e", "node_history_nodes=gpu3", "-e", "node_history_days=90"]
    assert lines[0].startswith("gpu3  drained (IDLE+DRAIN): new memory [")
    assert "  different Xids that drained the node (xid_cnt): not known, points 0" in lines
    assert "  validations that blamed the node (blame_count): 1, points 2" in lines
    assert "machine  reports no serial number (from the node)" in lines
    assert "out of service  not known (accounting)" in lines
    assert "health check  none" in lines
    assert "not known: Slurm: jobs: sacct is not installed" in lines
    assert any(line.startswith("not known: report 20261121T080000Z: ") for line in lines)


@pytest.mark.parametrize("missing", ["busbar_node_machine", "busbar_node_slurm"])
def test_missing_answer_is_named(
    site: Path, answers: dict[str, Any], capsys: pytest.CaptureFixture[str], missing: str
) -> None:
    del answers[missing]
    assert run(site, "show", "gpu3", "--format", "json") == 3
    found = json.loads(capsys.readouterr().out)
    assert {"busbar_node_machine": "gpu3", "busbar_node_slurm": "controller"}[missing] in found["not_known"]
    assert len(found["validations"]) == 1


def test_nodes_are_listed_and_lemons_are_selected(
    site: Path, answers: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(site, "list") == 0
    lines = capsys.readouterr().out.splitlines()
    assert answers["options"] == [*TAGS, "-e", "node_history_days=28"]
    assert [line.split()[:3] for line in lines[:2]] == [["gpu1", "0+", "PASS"], ["gpu3", "2+", "FAIL"]]
    assert "+: minimum, because not all signals are known" in lines
    assert run(site, "list", "--lemons", "--lemon-limit", "2") == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("gpu3 ")
    assert lines[1].strip() == "validations that blamed the node: 1"
    assert run(site, "list", "--lemons") == 0
    assert capsys.readouterr().out.startswith("no node has a lemon score of 6 or more\n")
    del answers["busbar_node_slurm"]
    assert run(site, "list") == 3


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("show", "gpu33"), "gpu33: not a compute node of the inventory"),
        (("show", "ctl"), "ctl: not a compute node"),
        (("show", "gpu3", "--days", "0"), "--days 0: use a number of days from 1 to 3660"),
        (("list", "--reports", "/nowhere"), "--reports /nowhere: folder not found"),
    ],
)
@pytest.mark.usefixtures("answers")
def test_bad_input(site: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], said: str) -> None:
    assert run(site, *words) == 2
    assert said in capsys.readouterr().err
