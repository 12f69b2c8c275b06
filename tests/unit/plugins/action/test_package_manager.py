"""Tests of the package modules' action: progress messages while the package manager is locked, and the timeout."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display
from ansible_collections.busbar.cluster.plugins.action import package_manager
from ansible_collections.busbar.cluster.plugins.module_utils.common.package_lock import LIMIT_S, LOCK_PATIENCE_S
from fake_clock import FakeClock

if TYPE_CHECKING:
    from collections.abc import Iterator

HOLDER = {"lock": "/var/lib/dpkg/lock-frontend", "pid": 812, "process": "unattended-upgr", "command": "python3 -m uu"}
BUSY = {"failed": True, "msg": "the package manager is busy", "waits_for": HOLDER}


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    lines: list[str] = []
    monkeypatch.setattr(Display, "display", lambda _, text: lines.append(text))
    return lines


def run(monkeypatch: pytest.MonkeyPatch, answers: Iterator[dict[str, Any]]) -> tuple[dict[str, Any], FakeClock]:
    clock = FakeClock()
    monkeypatch.setattr(package_manager, "time", clock)
    action = package_manager.ActionModule.__new__(package_manager.ActionModule)
    monkeypatch.setattr(ActionBase, "run", lambda *_: {})
    action.__dict__["_task"] = SimpleNamespace(
        action="busbar.cluster.packages", args={}, delegate_to=None, check_mode=False
    )

    def execute(**_: object) -> dict[str, Any]:
        answer = next(answers)
        clock.now += LOCK_PATIENCE_S if "waits_for" in answer else 1
        return answer

    monkeypatch.setattr(action, "_execute_module", execute, raising=False)
    return action.run(task_vars={"inventory_hostname": "gpu1"}), clock


def forever(answer: dict[str, Any]) -> Iterator[dict[str, Any]]:
    while True:
        yield answer


def test_free_package_manager_causes_no_delay_and_no_message(monkeypatch: pytest.MonkeyPatch, said: list[str]) -> None:
    result, clock = run(monkeypatch, iter([{"changed": True}]))
    assert (result, said, clock.now) == ({"changed": True}, [], 1001.0)


def test_lock_holder_is_reported_within_30_s_and_the_module_is_retried(
    monkeypatch: pytest.MonkeyPatch, said: list[str]
) -> None:
    result, clock = run(monkeypatch, iter([BUSY, BUSY, {"changed": True, "installed": ["chrony"]}]))
    assert result == {"changed": True, "installed": ["chrony"]}
    assert said == [
        "WAITING gpu1: /var/lib/dpkg/lock-frontend is held by unattended-upgr (pid 812: python3 -m uu); 15 of 300 s"
    ]
    assert LOCK_PATIENCE_S < 30
    assert clock.now - 1000 < 40


def test_timeout_fails_with_the_name_of_the_holder(monkeypatch: pytest.MonkeyPatch, said: list[str]) -> None:
    result, clock = run(monkeypatch, forever(BUSY))
    assert result["failed"]
    assert "unattended-upgr (pid 812: python3 -m uu)" in result["msg"]
    assert "remedy: wait for it" in result["msg"]
    assert LIMIT_S <= clock.now - 1000 < LIMIT_S + 30
    assert 3 <= len(said) <= 8


def test_change_of_the_lock_holder_is_reported(monkeypatch: pytest.MonkeyPatch, said: list[str]) -> None:
    other = {**BUSY, "waits_for": {**HOLDER, "pid": 9, "process": "apt-get", "command": "apt-get upgrade"}}
    run(monkeypatch, iter([BUSY, other, {"changed": False}]))
    assert ["apt-get (pid 9" in line for line in said] == [False, True]


def test_terminal_escapes_from_a_host_are_removed(monkeypatch: pytest.MonkeyPatch, said: list[str]) -> None:
    evil = {**BUSY, "waits_for": {"lock": "/x", "pid": "812", "process": "a\x1b[2Jb", "command": "\x1b]52;c;eA==\x07"}}
    result, _ = run(monkeypatch, forever(evil))
    assert said
    assert not any("\x1b" in text or "\x07" in text for text in [*said, result["msg"]])


def test_another_failure_is_reported_at_once(monkeypatch: pytest.MonkeyPatch, said: list[str]) -> None:
    failed = {"failed": True, "msg": "cannot install chrony: E: Unable to locate package chrony"}
    assert run(monkeypatch, iter([failed]))[0] == failed
    assert said == []
