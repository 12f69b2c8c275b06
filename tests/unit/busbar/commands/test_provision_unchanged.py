"""What `busbar provision` runs when nothing has changed, and when something has."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.busbar.cluster.plugins.plugin_utils.last_run import forget, read, record_of
from busbar.cli import main
from busbar.commands import provision

if TYPE_CHECKING:
    from pathlib import Path

    from busbar.run.events import Run
    from busbar.run.playbook import Playbook


class Hosts:
    """Stands for Ansible: notes which playbooks are run, and answers as two hosts would."""

    def __init__(self) -> None:
        """Begin with hosts that are as they were."""
        self.ran: list[str] = []
        self.changed: dict[str, int] = {}
        self.drift = {"ctl": "", "gpu1": ""}
        self.returned = 0

    def run(self, playbook: Playbook, run: Run, _log: Path) -> tuple[int, bool]:
        """Do what run_playbook does."""
        self.ran.append(playbook.path.name)
        if playbook.path.name == "site.yml":
            # As the callback run_guard does.
            forget(record_of(playbook.inventory[0]))
        run.tasks = 1
        run.stats = {"ok": {"ctl": 1, "gpu1": 1}, "failures": {}, "dark": {}, "changed": self.changed}
        run.custom = {"busbar_drift": self.drift} if playbook.path.name == "unchanged.yml" else {}
        return self.returned, False


@pytest.fixture
def hosts(monkeypatch: pytest.MonkeyPatch) -> Hosts:
    answers = Hosts()
    monkeypatch.setattr(provision, "run_playbook", answers.run)
    return answers


@pytest.fixture
def inventory(tmp_path: Path) -> Path:
    path = tmp_path / "inventory"
    path.mkdir()
    (path / "hosts.yml").write_text("all: {hosts: {ctl: {}, gpu1: {}}}\n")
    return path


def ran(hosts: Hosts, inventory: Path, *options: str) -> list[str]:
    """The playbooks of one more run."""
    hosts.ran.clear()
    assert main(["provision", "-i", str(inventory), *options]) == 0
    return list(hosts.ran)


@pytest.fixture
def recorded(hosts: Hosts, inventory: Path) -> dict[str, Any]:
    """What a full run without a change kept, as if it had executed something on both hosts."""
    assert ran(hosts, inventory) == ["site.yml"]
    path = record_of(inventory) / "record.json"
    path.write_text(json.dumps(read(path.parent) | {"hosts": ["ctl", "gpu1"]}))
    return read(path.parent)


@pytest.mark.usefixtures("recorded")
def test_nothing_changed(hosts: Hosts, inventory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert ran(hosts, inventory) == ["unchanged.yml", "put_into_service.yml"]
    said = capsys.readouterr().out
    assert "ctl,gpu1: unchanged since " in said
    assert "full run: " not in said
    assert ran(hosts, inventory) == ["unchanged.yml", "put_into_service.yml"]


@pytest.mark.usefixtures("recorded")
def test_a_host_that_differs_is_named_and_makes_it_a_full_run(
    hosts: Hosts, inventory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hosts.drift["gpu1"] = "ssh : Write the settings: would change something"
    hosts.changed = {"gpu1": 1}
    capsys.readouterr()
    assert ran(hosts, inventory) == ["unchanged.yml", "site.yml"]
    said = capsys.readouterr().out
    assert "gpu1: changed since the last full run: ssh : Write the settings: would change something" in said
    assert "full run: gpu1: ssh : Write" in said
    # What was changed is proven by the next full run only.
    assert ran(hosts, inventory) == ["site.yml"]


@pytest.mark.usefixtures("recorded")
def test_what_the_user_changes_makes_it_a_full_run_at_once(
    hosts: Hosts, inventory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (inventory / "group_vars").mkdir()
    (inventory / "group_vars/all.yml").write_text("hosts_timezone: CET\n")
    assert ran(hosts, inventory) == ["site.yml"]
    assert f"full run: {inventory}/group_vars/all.yml" in capsys.readouterr().out


@pytest.mark.usefixtures("recorded")
@pytest.mark.parametrize("options", [("--no-fast",), ("--check",), ("--limit", "gpu1"), ("--tags", "ssh")])
def test_who_asks_for_something_else_gets_it(hosts: Hosts, inventory: Path, options: tuple[str, ...]) -> None:
    assert ran(hosts, inventory, *options) == ["site.yml"]


@pytest.mark.usefixtures("recorded")
def test_another_playbook_is_run_as_it_is(hosts: Hosts, inventory: Path) -> None:
    hosts.ran.clear()
    assert main(["provision", "base", "-i", str(inventory)]) == 0
    assert hosts.ran == ["base.yml"]


def test_without_a_validation_the_look_is_all(hosts: Hosts, inventory: Path) -> None:
    skip = ("--skip-tags", "validation")
    assert ran(hosts, inventory, *skip) == ["site.yml"]
    assert ran(hosts, inventory, *skip) == ["unchanged.yml"]
    assert ran(hosts, inventory) == ["site.yml"]


@pytest.mark.usefixtures("recorded")
def test_a_look_that_fails_is_no_proof(hosts: Hosts, inventory: Path) -> None:
    hosts.returned = 2
    hosts.ran.clear()
    assert main(["provision", "-i", str(inventory)]) != 0
    assert hosts.ran == ["unchanged.yml", "site.yml"]
