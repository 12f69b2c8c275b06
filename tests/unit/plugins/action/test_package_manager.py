"""The action behind the modules that install packages: what the screen hears of a lock, and when it gives up."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display
from ansible_collections.busbar.cluster.plugins.action import package_manager
from ansible_collections.busbar.cluster.plugins.module_utils.common.package_lock import LIMIT_S, LOCK_PATIENCE_S
from ansible_collections.busbar.cluster.plugins.plugin_utils import packages_seen

if TYPE_CHECKING:
    from collections.abc import Iterator

HOLDER = {"lock": "/var/lib/dpkg/lock-frontend", "pid": 812, "process": "unattended-upgr", "command": "python3 -m uu"}
BUSY = {"failed": True, "msg": "the package manager is busy", "waits_for": HOLDER}


class Clock:
    """Goes on when somebody sleeps, and by the module's own patience with each run of it."""

    now = 1000.0

    def monotonic(self) -> float:
        """Return the time."""
        return self.now

    def sleep(self, seconds: float) -> None:
        """Let time go by."""
        self.now += seconds


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    lines: list[str] = []
    monkeypatch.setattr(Display, "display", lambda _, text: lines.append(text))
    return lines


def run(monkeypatch: pytest.MonkeyPatch, answers: Iterator[dict[str, Any]]) -> tuple[dict[str, Any], Clock]:
    clock = Clock()
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


def test_a_free_manager_costs_nothing(monkeypatch: pytest.MonkeyPatch, said: list[str]) -> None:
    result, clock = run(monkeypatch, iter([{"changed": True}]))
    assert (result, said, clock.now) == ({"changed": True}, [], 1001.0)


def test_the_screen_names_host_and_holder_within_30_s_and_the_module_runs_again(
    monkeypatch: pytest.MonkeyPatch, said: list[str]
) -> None:
    result, clock = run(monkeypatch, iter([BUSY, BUSY, {"changed": True, "installed": ["chrony"]}]))
    assert result == {"changed": True, "installed": ["chrony"]}
    assert said == [
        "WAITING gpu1: /var/lib/dpkg/lock-frontend is held by unattended-upgr (pid 812: python3 -m uu); 15 of 300 s"
    ]
    assert LOCK_PATIENCE_S < 30
    assert clock.now - 1000 < 40


def test_the_limit_holds_and_the_last_word_names_the_holder(monkeypatch: pytest.MonkeyPatch, said: list[str]) -> None:
    result, clock = run(monkeypatch, forever(BUSY))
    assert result["failed"]
    assert "unattended-upgr (pid 812: python3 -m uu)" in result["msg"]
    assert "remedy: let it end" in result["msg"]
    assert LIMIT_S <= clock.now - 1000 < LIMIT_S + 30
    assert 3 <= len(said) <= 8


def test_another_holder_is_told(monkeypatch: pytest.MonkeyPatch, said: list[str]) -> None:
    other = {**BUSY, "waits_for": {**HOLDER, "pid": 9, "process": "apt-get", "command": "apt-get upgrade"}}
    run(monkeypatch, iter([BUSY, other, {"changed": False}]))
    assert ["apt-get (pid 9" in line for line in said] == [False, True]


def test_a_host_writes_no_commands_on_the_terminal(monkeypatch: pytest.MonkeyPatch, said: list[str]) -> None:
    evil = {**BUSY, "waits_for": {"lock": "/x", "pid": "812", "process": "a\x1b[2Jb", "command": "\x1b]52;c;eA==\x07"}}
    result, _ = run(monkeypatch, forever(evil))
    assert said
    assert not any("\x1b" in text or "\x07" in text for text in [*said, result["msg"]])


def test_another_failure_is_told_at_once(monkeypatch: pytest.MonkeyPatch, said: list[str]) -> None:
    failed = {"failed": True, "msg": "cannot install chrony: E: Unable to locate package chrony"}
    assert run(monkeypatch, iter([failed]))[0] == failed
    assert said == []


class Host:
    """A host that is asked for packages by one run after another; keeps facts as Ansible does, on disk."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Begin a run."""
        self.facts: dict[str, Any] = {}
        self.asked = 0
        monkeypatch.setattr(ActionBase, "run", lambda *_: {})
        monkeypatch.setenv(packages_seen.RUN, "")
        packages_seen.begin_run()

    def ask(
        self, *, module: str = "packages", changed: bool = False, on: str = "", dry: bool = False, **args: object
    ) -> dict[str, Any]:
        """Return the result of a task."""
        action = package_manager.ActionModule.__new__(package_manager.ActionModule)
        name = f"busbar.cluster.{module}"
        task = SimpleNamespace(action=name, args=args, delegate_to=on or None, check_mode=dry)

        def execute(**_: object) -> dict[str, Any]:
            self.asked += 1
            # As Ansible does.
            task.args["_ansible_check_mode"] = dry
            return {"changed": changed, "installed": ["chrony"] if changed else []}

        action.__dict__.update(_task=task, _execute_module=execute)
        result: dict[str, Any] = action.run(task_vars={"inventory_hostname": "gpu1", "ansible_facts": self.facts})
        self.facts |= result.pop("ansible_facts", {})
        return result


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> Host:
    return Host(monkeypatch)


def test_what_a_run_has_found_it_does_not_ask_for_again(host: Host) -> None:
    host.ask(name=["chrony", "munge"], start_services=False)
    assert host.ask(name="munge") == {"changed": False, "installed": [], "removed": [], "held": [], "diff": []}
    assert host.ask(name=["munge", "chrony"], start_services=False)["changed"] is False
    assert host.asked == 1
    host.ask(name=["munge", "slurmd"], changed=True)
    host.ask(name=["slurmd", "chrony"])
    assert host.asked == 2


@pytest.mark.parametrize(
    "meanwhile",
    [
        {"name": ["munge"], "packages": [{"name": "slurmd", "version": "25.05"}], "changed": True},
        {"absent": ["slurm*"], "changed": True},
        {"module": "package_upgrade", "changed": True},
    ],
)
def test_after_packages_have_moved_it_asks_again(host: Host, meanwhile: dict[str, Any]) -> None:
    host.ask(name=["munge"])
    host.ask(**meanwhile)
    host.ask(name=["munge"])
    assert host.asked == 3


@pytest.mark.parametrize(
    "asked",
    [
        {"name": ["munge"], "absent": ["nis"]},
        {"name": ["munge"], "packages": [{"name": "slurmd", "version": "25.05"}]},
        {"name": ["munge", "slurmd"]},
        {"name": []},
        {"name": ["munge"], "on": "ctl"},
        {"module": "package_upgrade", "name": ["munge"]},
    ],
)
def test_whatever_else_is_asked_for_it_asks(host: Host, asked: dict[str, Any]) -> None:
    host.ask(name=["munge"])
    host.ask(**asked)
    assert host.asked == 2


def test_what_is_only_planned_has_not_been_found(host: Host) -> None:
    host.ask(name=["munge"], changed=True, dry=True)
    host.ask(name=["munge"], dry=True)
    assert host.asked == 2


def test_what_another_host_has_is_no_fact_of_this_one(host: Host) -> None:
    host.ask(name=["munge"], on="ctl")
    host.ask(name=["munge"])
    assert host.asked == 2


def test_another_run_asks_again_whatever_facts_are_kept(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    host.ask(name=["munge"])
    packages_seen.begin_run()
    host.ask(name=["munge"])
    # Nor does a run know anything for which no callback has begun it.
    monkeypatch.delenv(packages_seen.RUN)
    host.ask(name=["munge"])
    assert host.asked == 3
