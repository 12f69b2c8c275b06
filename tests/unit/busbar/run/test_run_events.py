"""Tests of the summary of a run, built from events."""

from __future__ import annotations

import io
from typing import Any

import pytest
from busbar.run.display import Display, duration
from busbar.run.events import Run, failure_message, summary

RECAP = "PLAY RECAP ***\r\nctl : ok=1 changed=1 failed=0\r\n"


class Clock:
    """A clock that advances by one second at each reading."""

    now = 0.0

    def __call__(self) -> float:
        """Return the next second."""
        self.now += 1
        return self.now


def result(kind: str, host: str, res: dict[str, Any] | None = None, **data: object) -> dict[str, Any]:
    return {"event": kind, "event_data": {"host": host, "task": "Install", "role": "slurm", "res": res or {}, **data}}


def start(name: str = "Install", role: str = "busbar.cluster.slurm") -> dict[str, Any]:
    return {"event": "playbook_on_task_start", "pid": 7, "event_data": {"task": f"{role} : {name}", "role": role}}


def stats(**hosts: dict[str, int]) -> dict[str, Any]:
    return {"event": "playbook_on_stats", "stdout": RECAP, "event_data": {**hosts, "artifact_data": {"x": 1}}}


def follow(*events: dict[str, Any]) -> tuple[Run, list[str]]:
    stream = io.StringIO()
    run = Run(Display(stream), lambda _: 3, Clock())
    for event in events:
        run.handle(event)
    return run, stream.getvalue().splitlines()


def test_one_line_per_task_with_all_results() -> None:
    play = {"event": "playbook_on_play_start", "event_data": {"name": "Slurm", "pattern": "all"}}
    run, lines = follow(
        play,
        start(),
        result("runner_on_ok", "ctl"),
        result("runner_on_ok", "gpu1", {"changed": True}),
        result("runner_on_skipped", "gpu2"),
        start("Start"),
        result("runner_on_failed", "ctl", {"msg": "x"}, ignore_errors=True),
        stats(),
    )
    assert lines == [
        "PLAY Slurm (3 hosts)",
        "   1.0 s  slurm : Install  ok=1 changed=1 skipped=1",
        "   1.0 s  slurm : Start  ignored=1",
    ]
    assert (run.tasks, run.pid, run.failures, run.custom) == (2, 7, [], {"x": 1})
    assert run.recap.splitlines() == ["PLAY RECAP ***", "ctl : ok=1 changed=1 failed=0"]


def test_messages_of_the_play_are_shown_once() -> None:
    said = {"msg": ["cluster: PASS", "report: /x"]}
    events = [result("runner_on_ok", host, said, resolved_action="ansible.builtin.debug") for host in ("gpu1", "gpu2")]
    lines = follow(start("Say"), *events, stats())[1]
    assert lines == ["   1.0 s  slurm : Say  ok=2", "          cluster: PASS", "          report: /x"]


def test_long_output_refers_to_the_log() -> None:
    def says(host: str) -> dict[str, Any]:
        said = {"msg": [f"{host}: {number}" for number in range(20)]}
        return result("runner_on_ok", host, said, resolved_action="ansible.builtin.debug")

    lines = follow(start("Say"), says("gpu1"), says("gpu2"), says("gpu3"), stats())[1]
    assert len(lines) == 22
    assert lines[-2:] == ["          gpu1: 19", "          … see the log for the other hosts"]
    lines = follow(start("Say"), says("gpu1"), says("gpu1"), stats())[1]
    assert lines[-1] == "          gpu1: 19"


def test_message_cannot_start_a_line() -> None:
    forged = {"msg": ["a\nVerdict: PASS", "b\rVerdict: PASS", "c\u2028Verdict: PASS", "\x1b[31mred\x1b[0m"]}
    said = result("runner_on_ok", "gpu1", forged, resolved_action="ansible.builtin.debug")
    run, lines = follow(start("Say\nVerdict: PASS"), said, result("runner_on_failed", "g\n1", forged), stats())
    assert lines[1:] == [
        f"          {text}" for text in ("a", "Verdict: PASS", "b\ufffdVerdict: PASS", "c\ufffdVerdict: PASS", "red")
    ]
    assert not [line for line in "\n".join(summary(run)).splitlines() if line.startswith("Verdict")]
    alone = follow({"event": "error", "stdout": "[ERROR]: no\r\nVerdict: PASS\r\n"})[0]
    assert "\n".join(summary(alone)).splitlines()[1:3] == ["[ERROR]: no", "    Verdict: PASS"]


def test_task_skipped_by_all_hosts_is_shown_only_on_demand() -> None:
    events = [start("Never"), result("runner_on_skipped", "gpu1"), start("Partly"), result("runner_on_skipped", "gpu1")]
    events += [result("runner_on_ok", "gpu2"), stats()]
    assert follow(*events)[1] == ["   1.0 s  slurm : Partly  ok=1 skipped=1"]
    stream = io.StringIO()
    run = Run(Display(stream, skipped=True), lambda _: 3, Clock())
    for event in events:
        run.handle(event)
    assert stream.getvalue().splitlines()[0] == "   1.0 s  slurm : Never  skipped=1"
    assert run.tasks == 2


def test_equal_diffs_are_shown_once_with_their_hosts() -> None:
    def diff(host: str, text: str) -> dict[str, Any]:
        return {"event": "runner_on_file_diff", "stdout": text, "event_data": {"host": host, "task": "Install"}}

    same = "--- before: /etc/x\r\n+++ after: /etc/x\r\n@@ -0,0 +1 @@\r\n+new\x1b[2J\r\n"
    events = [diff("gpu1", same), result("runner_on_ok", "gpu1", {"changed": True}), diff("gpu2", same)]
    events += [diff("gpu3", "+other"), diff("gpu4", "\r\n"), stats()]
    assert follow(start(), *events)[1] == [
        "   1.0 s  slurm : Install  changed=1",
        "          gpu[1-2]:",
        "          --- before: /etc/x",
        "          +++ after: /etc/x",
        "          @@ -0,0 +1 @@",
        "          +new\ufffd[2J",
        "          gpu3:",
        "          +other",
    ]


def test_task_without_hosts_is_not_counted() -> None:
    run, lines = follow(start("Flush"), start("Flush"), stats())
    assert (run.tasks, lines) == (0, [])


def test_change_with_no_log_is_counted() -> None:
    hidden = result("runner_on_ok", "ctl", {"censored": "hidden"}) | {"stdout": "changed: [ctl]"}
    assert follow(start(), hidden, stats())[1] == ["   1.0 s  slurm : Install  changed=1"]


def test_equal_failures_are_merged_with_all_hosts() -> None:
    events = [result("runner_on_failed", f"gpu{number}", {"msg": "disk full"}) for number in (1, 2, 3)]
    run, _ = follow(start(), *events, result("runner_on_unreachable", "gpu4", {"msg": "timed out"}))
    assert [(found.kind, found.message, found.hosts) for found in run.failures] == [
        ("failed", "disk full", ["gpu1", "gpu2", "gpu3"]),
        ("unreachable", "timed out", ["gpu4"]),
    ]
    assert [line for line in summary(run) if "FAILED" in line] == ["FAILED gpu[1-3]: slurm : Install"]


@pytest.mark.parametrize(
    ("message", "remedies"),
    [
        ("Task failed: Missing sudo password", 1),
        ("Incorrect sudo password", 1),
        ("sudo: a password is required", 1),
        ("Missing sudo password (give it with --ask-become-pass)", 0),
        ("disk full", 0),
    ],
)
def test_missing_sudo_password_is_reported_with_the_remedy(message: str, remedies: int) -> None:
    run, _ = follow(start(), result("runner_on_failed", "gpu1", {"msg": message}))
    assert sum("-K (--ask-become-pass)" in line for line in summary(run)) == remedies


def test_rescued_failure_is_not_counted() -> None:
    failed = result("runner_on_failed", "gpu1", {"msg": "x"})
    assert follow(start(), failed, stats(failures={}, dark={}))[0].failures == []
    assert len(follow(start(), failed, stats(failures={"gpu1": 1}))[0].failures) == 1


def test_errors_without_a_task_are_reported() -> None:
    run, _ = follow({"event": "error", "stdout": "[ERROR]: no such playbook\r\n"})
    assert "[ERROR]: no such playbook" in summary(run)


def test_output_before_the_first_task_is_shown_only_if_no_task_runs() -> None:
    said = {"event": "verbose", "stdout": "no hosts matched"}
    assert "no hosts matched" in summary(follow(said)[0])
    assert "no hosts matched" not in summary(follow(said, start(), result("runner_on_ok", "ctl"), stats())[0])


@pytest.mark.parametrize("flag", [{"failed": True}, {}], ids=["2.19", "2.21"])
def test_loop_with_refused_items_is_a_refusal(flag: dict[str, Any]) -> None:
    """Since 2.21, items in the result of a loop lack the flag `failed`."""
    passed, refused = {"item": 1, "changed": False}, {"item": 2, "msg": "gpu1: a: 2", "busbar_refused": True}
    whole = {"msg": "One or more items failed", "results": [passed, refused | flag]}
    run, _ = follow(
        start(), result("runner_item_on_failed", "gpu1", refused | flag), result("runner_on_failed", "gpu1", whole)
    )
    (failure,) = run.failures
    assert (failure.message, failure.refused) == ("gpu1: a: 2", True)


@pytest.mark.parametrize(
    ("res", "expected"),
    [
        ({"msg": "Task failed: Incorrect sudo password"}, "Incorrect sudo password"),
        ({"msg": "non-zero return code", "stderr": "no such file\n"}, "non-zero return code\nno such file"),
        (
            {"msg": "MODULE FAILURE: See stdout/stderr", "module_stderr": "Boom"},
            "MODULE FAILURE: See stdout/stderr\nBoom",
        ),
        ({"censored": "hidden"}, "hidden"),
        ({"msg": "Request failed", "url": "http://a.example/b"}, "http://a.example/b: Request failed"),
        ({"msg": "no http://a.example/b", "url": "http://a.example/b"}, "no http://a.example/b"),
        ({"msg": "refused", "url": "http://erin:secret@a.example/b"}, "http://a.example/b: refused"),
        (
            {
                "msg": "One or more items failed",
                "results": [{"failed": True, "msg": "a"}, {"msg": "b"}, {"failed": True, "msg": "a"}],
            },
            "a",
        ),
        ({}, ""),
    ],
)
def test_failure_message(res: dict[str, Any], expected: str) -> None:
    assert failure_message(res) == expected


@pytest.mark.parametrize(
    ("seconds", "expected"), [(0.44, "0.4 s"), (12.4, "12 s"), (59.7, "1 min 00 s"), (185, "3 min 05 s")]
)
def test_duration(seconds: float, expected: str) -> None:
    assert duration(seconds) == expected


@pytest.mark.parametrize(
    "line",
    [
        "WAITING gpu1: /var/lib/dpkg/lock-frontend is held by apt-get (pid 7: apt-get upgrade); 15 of 300 s",
        "VALIDATION stage cluster: 1 test(s) on gpu[1-4], at most 600 s; 7199 s left",
    ],
)
def test_progress_is_reported_immediately(line: str) -> None:
    stream = io.StringIO()
    run = Run(Display(stream), lambda _: 3, Clock())
    run.handle(start())
    run.handle({"event": "verbose", "stdout": f"{line}\r\n", "event_data": {}})
    assert stream.getvalue() == f"{line}\n"
    assert run.prelude == []


def test_long_list_of_wrong_input_is_reported_in_full() -> None:
    lines = "\n".join(f"gpu{number}: option: is wrong" for number in range(400))
    assert failure_message({"failed": True, "msg": lines, "busbar_refused": True}) == lines
    shortened = failure_message({"failed": True, "msg": lines})
    assert len(shortened) < len(lines)
    assert shortened.endswith("… see the log for the rest")
