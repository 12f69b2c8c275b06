"""Tests of `busbar provision`: its playbook run, output and exit codes."""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest
from busbar.commands import provision
from busbar.errors import UsageError
from busbar.run import playbook
from busbar.run import site as site_module
from busbar.run.events import Failure

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from busbar.run.events import Run
    from busbar.run.playbook import Playbook


def failure(
    role: str = "slurm",
    action: str = "ansible.builtin.command",
    task: str = "Try",
    kind: str = "failed",
    *,
    refused: bool = False,
) -> Failure:
    return Failure(task, "message", role, action, kind, refused, ["gpu1"])


@pytest.mark.parametrize(
    ("returned", "failures", "verdict", "expected"),
    [
        (0, [], None, 0),
        (2, [failure()], None, 1),
        (4, [failure()], None, 1),
        (4, [], None, 1),
        (1, [], None, 2),
        (5, [], None, 2),
        (2, [failure("busbar.cluster.preflight")], None, 2),
        (2, [failure(action="ansible.builtin.validate_argument_spec")], None, 2),
        (2, [failure("preflight"), failure()], None, 1),
        (2, [failure(task="users : preflight | Refuse a number that is taken")], None, 1),
        (2, [failure(refused=True)], None, 2),
        (2, [failure("validation", refused=True)], None, 2),
        (2, [failure(refused=True), failure(kind="unreachable")], None, 1),
        (4, [failure("preflight", kind="unreachable")], None, 1),
        (0, [], "PASS", 0),
        (2, [failure("validation")], "FAIL", 1),
        (2, [failure("validation")], "INCONCLUSIVE", 3),
        (2, [failure("validation")], "PASS", 3),
        (2, [failure("validation")], None, 1),
        (2, [failure("validation"), failure()], "INCONCLUSIVE", 1),
        (0, [], "INCONCLUSIVE", 3),
        (0, [], "nonsense", 3),
        (0, [], "left out", 0),
        (2, [failure("validation")], "not tested", 4),
        (0, [], "not tested", 4),
        (2, [failure()], "not tested", 1),
        (2, [failure()], "left out", 1),
    ],
)
def test_exit_code(returned: int, failures: list[Failure], verdict: str | None, expected: int) -> None:
    assert provision.exit_code(returned, failures, verdict) == expected


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    provision.register(parser.add_subparsers())
    return parser.parse_args(arguments)


def test_options_are_passed_to_ansible_in_order() -> None:
    args = parse(["provision", "slurm", "--limit", "gpu1", "-CD", "-vv", "-e", "a=1", "--extra-vars=b=2", "-f5"])
    assert args.playbook == "slurm"
    assert args.options == ["--limit", "gpu1", "-C", "-D", "-v", "-v", "-e", "a=1", "--extra-vars", "b=2", "-f", "5"]


def test_unknown_options_are_refused() -> None:
    with pytest.raises(SystemExit) as caught:
        parse(["validate", "--no-such-option"])
    assert caught.value.code == 2


@pytest.mark.parametrize(
    "arguments",
    [
        ["provision", "-i", "/does/not/exist"],
        ["provision", "--sandbox", "-i", "x"],
        ["provision", "--name", "no-such-sandbox"],
        ["provision", "--name", "x", "-i", "y"],
        ["provision", "no_such_playbook", "-i", "a,"],
        ["provision", "../playbooks/preflight", "-i", "a,"],
    ],
)
def test_bad_usage(arguments: list[str]) -> None:
    args = parse(arguments)
    with pytest.raises(UsageError):
        args.run(args)


@pytest.mark.parametrize(
    ("words", "option", "remedy"),
    [
        (["--no-fast"], "--no-fast", "remove the option"),
        (
            ["--slices", "2"],
            "--slices",
            "--limit, or on a bastion host of each rack with ansible-runner (docs/scale.md)",
        ),
        (["--on", "bastion1"], "--on", "ansible-runner (docs/scale.md)"),
    ],
)
def test_removed_option_is_refused_with_the_remedy(words: list[str], option: str, remedy: str) -> None:
    args = parse(["provision", *words, "-i", "gpu1,"])
    with pytest.raises(UsageError, match=f"{option} was removed: .*{re.escape(remedy)}$"):
        args.run(args)


@pytest.mark.parametrize(
    ("playbook", "remedy"),
    [
        ("security_report", "lynis audit system"),
        ("auditd", "os_hardening"),
        ("rotate_ssh", "rotate_secrets -e rotate_secrets=ssh"),
        ("elevate", "busbar user elevate"),
    ],
)
def test_removed_playbook_is_refused_with_the_remedy(playbook: str, remedy: str) -> None:
    args = parse(["provision", playbook, "-i", "gpu1,"])
    with pytest.raises(UsageError, match=rf"{playbook} was removed: .*{remedy}"):
        args.run(args)


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """Return a folder with an inventory."""
    (tmp_path / "inventory").mkdir()
    (tmp_path / "inventory" / "hosts.yml").write_text("all: {hosts: {node1: }}\n")
    return tmp_path


def run_with(monkeypatch: pytest.MonkeyPatch, site: Path, command: str, report: tuple[str, float] | None) -> int:
    """Run a command whose playbook only writes a report with a text and an age in seconds; return the exit code."""

    def fake(playbook: Playbook, run: Run, log: Path) -> tuple[int, bool]:
        assert playbook.inventory == [str(site / "inventory")]
        assert log.parent == site / "logs"
        run.tasks = 1
        if report is not None:
            place = site / "reports" / "now" / "report.json"
            place.parent.mkdir(parents=True)
            place.write_text(report[0])
            os.utime(place, (time.time() - report[1],) * 2)
        return 0, False

    monkeypatch.setattr(site_module, "run_playbook", fake)
    monkeypatch.setattr(provision, "_playbook_path", lambda name: site / f"{name}.yml")
    args = parse([command, "-i", str(site / "inventory")])
    return int(args.run(args))


@pytest.mark.parametrize(
    ("command", "report", "expected"),
    [
        ("validate", (json.dumps({"verdict": "PASS"}), 0), 0),
        ("validate", (json.dumps({"verdict": "FAIL"}), 0), 1),
        ("validate", (json.dumps({"verdict": "INCONCLUSIVE"}), 0), 3),
        ("validate", (json.dumps({"verdict": "INCONCLUSIVE", "not_tested": True}), 0), 4),
        ("validate", (json.dumps({"verdict": "FAIL", "not_tested": True}), 0), 1),
        ("validate", (json.dumps({"verdict": "not tested"}), 0), 3),
        ("provision", (json.dumps({"verdict": "INCONCLUSIVE", "not_tested": True, "busy_allowed": True}), 0), 0),
        ("validate", ("{", 0), 3),
        ("validate", (json.dumps({"verdict": "PASS"}), 3600), 3),
        ("validate", None, 3),
        ("provision", None, 0),
        ("provision", (json.dumps({"verdict": "FAIL"}), 3600), 0),
        ("provision", (json.dumps({"verdict": "FAIL"}), 0), 1),
    ],
)
def test_only_a_report_of_this_run_counts(
    monkeypatch: pytest.MonkeyPatch, site: Path, command: str, report: tuple[str, float] | None, expected: int
) -> None:
    assert run_with(monkeypatch, site, command, report) == expected


@pytest.mark.parametrize(("verdict", "expected"), [("PASS", 3), ("INCONCLUSIVE", 3), ("FAIL", 1)])
@pytest.mark.parametrize("command", ["validate", "provision"])
def test_report_that_could_not_be_written_is_inconclusive_unless_the_verdict_is_fail(  # noqa: PLR0913, PLR0917
    monkeypatch: pytest.MonkeyPatch,
    site: Path,
    capsys: pytest.CaptureFixture[str],
    verdict: str,
    expected: int,
    command: str,
) -> None:
    def fake(_playbook: Playbook, run: Run, _log: Path) -> tuple[int, bool]:
        run.tasks, run.custom = 1, {"busbar_report": "", "busbar_verdict": verdict}
        found = failure("validation")
        monkeypatch.setattr(type(run), "failures", [found])
        place = site / "reports" / "now" / "report.json"
        place.parent.mkdir(parents=True)
        place.write_text(json.dumps({"verdict": "PASS"}))
        return 2, False

    monkeypatch.setattr(site_module, "run_playbook", fake)
    monkeypatch.setattr(provision, "_playbook_path", lambda name: site / f"{name}.yml")
    args = parse([command, "-i", str(site / "inventory")])
    assert int(args.run(args)) == expected
    word = "FAIL" if verdict == "FAIL" else "INCONCLUSIVE"
    assert f"Verdict: {word}: the validation wrote no report" in capsys.readouterr().out


def test_first_line_names_inventory_and_log(
    monkeypatch: pytest.MonkeyPatch, site: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run_with(monkeypatch, site, "provision", None)
    first = capsys.readouterr().out.splitlines()[0]
    assert str(site / "inventory") in first
    assert str(site / "logs") in first


def test_log_is_private_and_never_overwritten(tmp_path: Path) -> None:
    first, second = (playbook.open_log(tmp_path / "logs", "provision") for _ in range(2))
    assert first != second
    assert first.stat().st_mode & 0o777 == 0o600


def test_unwritable_log_is_bad_input(tmp_path: Path) -> None:
    (tmp_path / "logs").write_text("")
    with pytest.raises(UsageError, match="logs"):
        playbook.open_log(tmp_path / "logs", "provision")


def test_reason_of_a_report_cannot_start_a_line(
    monkeypatch: pytest.MonkeyPatch, site: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hostile = {"verdict": "INCONCLUSIVE", "busy_allowed": True, "reason": "left out gpu1\x1b[2J\r\nVerdict: PASS"}
    assert run_with(monkeypatch, site, "provision", (json.dumps(hostile), 0)) == 0
    said = capsys.readouterr().out
    assert "validation left out gpu1\ufffd[2J Verdict: PASS" in said.splitlines()
    assert not [line for line in said.splitlines() if line.startswith("Verdict")]


PLAYS = {
    "Take what was declared": "busbar.cluster.refuse: {problems: [{hosts: [node1], key: a, problem: b, remedy: c}]}",
    "Take none": "busbar.cluster.refuse: {problems: []}",
    "Take each": "busbar.cluster.refuse: {msg: 'node1: a: {{ item }}'}\n      loop: [1, 2]\n      when: item > 1",
    "users : preflight | Refuse": "ansible.builtin.fail: {msg: broken}",
    "Take half": "ansible.builtin.fail: {msg: broken}\n      ignore_errors: true",
}


@pytest.mark.parametrize(
    ("tasks", "expected", "said"),
    [
        (["Take what was declared"], 2, "    node1: a: b\n        remedy: c\n"),
        (["Take none"], 0, ""),
        (["Take none", "Take half", "Take each"], 2, "    node1: a: 2\n"),
        (["users : preflight | Refuse"], 1, "    broken\n"),
    ],
)
def test_bad_input_is_detected_by_the_result_and_not_by_the_task_name(
    site: Path, tasks: list[str], expected: int, said: str
) -> None:
    (site / "inventory/hosts.yml").write_text("all: {hosts: {node1: {ansible_connection: local}}}\n")
    lines = ["- name: Try", "  hosts: all", "  gather_facts: false", "  tasks:"]
    lines += [f"    - name: '{name}'\n      {PLAYS[name]}" for name in tasks]
    (site / "try.yml").write_text("\n".join(lines) + "\n")
    program = "import sys; from busbar.cli import main; sys.exit(main(sys.argv[1:]))"
    command = [sys.executable, "-c", program, "provision", str(site / "try.yml"), "-i", str(site / "inventory")]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == expected, done.stdout + done.stderr
    assert said in done.stdout
