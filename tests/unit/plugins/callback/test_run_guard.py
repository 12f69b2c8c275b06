"""Tests of the inventory lock of a run, and of messages about the lock of a killed run."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from ansible import context
from ansible.module_utils.common.collections import ImmutableDict
from ansible.parsing.dataloader import DataLoader
from ansible.utils.display import Display
from ansible_collections.busbar.cluster.plugins.callback.run_guard import CallbackModule

TOP = Path(__file__).resolve().parents[4]
PLAYBOOK = SimpleNamespace(
    get_plays=lambda: [SimpleNamespace(get_path=lambda: "/site/play.yml:1")], get_loader=DataLoader
)


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of a site with an inventory."""
    monkeypatch.setattr("atexit.register", lambda _: None)
    (tmp_path / "inventory").mkdir()
    (tmp_path / "inventory/hosts.yml").write_text("all: {}\n")
    return tmp_path


def start(site: Path, monkeypatch: pytest.MonkeyPatch, *words: str, check: bool = False) -> None:
    given = {"inventory": [str(site / "inventory")], "check": check, "args": words}
    monkeypatch.setattr(context, "CLIARGS", ImmutableDict(given))
    CallbackModule().v2_playbook_on_start(PLAYBOOK)


def test_lock_of_a_killed_run_is_taken_over_with_a_warning(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`busbar provision` shows warnings; plainly displayed lines reach only the log."""
    warnings: list[str] = []
    monkeypatch.setattr(Display, "warning", lambda _, text: warnings.append(text))
    holder = {"host": socket.gethostname(), "user": "ann", "pid": 1 << 22, "since": time.time(), "command": "busbar x"}
    (site / "inventory.lock").write_text(json.dumps(holder))
    start(site, monkeypatch, "base.yml")
    (said,) = warnings
    assert said.startswith("took over the stale lock of a killed run: busbar x, started by ann on ")


@pytest.mark.parametrize(
    ("words", "check", "locked"),
    [
        (["play.yml"], False, True),
        (["play.yml"], True, False),
        (["busbar.cluster.site"], False, True),
        (["busbar.cluster.preflight"], False, False),
        ([str(TOP / "playbooks/preflight.yml")], False, False),
        ([str(TOP / "playbooks/preflight.yml"), "play.yml"], False, True),
        (["/site/preflight.yml"], False, True),
    ],
)
def test_playbook_that_changes_hosts_takes_the_lock(
    site: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], *, check: bool, locked: bool
) -> None:
    start(site, monkeypatch, *words, check=check)
    assert (site / "inventory.lock").exists() == locked


def test_ad_hoc_command_takes_no_lock(site: Path) -> None:
    (site / "inventory/hosts.yml").write_text("all: {hosts: {localhost: {ansible_connection: local}}}\n")
    done = subprocess.run(
        ["ansible", "-i", str(site / "inventory"), "localhost", "-m", "ansible.builtin.debug"],
        check=False,
        capture_output=True,
        text=True,
        cwd=TOP,
        env=os.environ
        | {"ANSIBLE_LOAD_CALLBACK_PLUGINS": "1", "ANSIBLE_CALLBACKS_ENABLED": "busbar.cluster.run_guard"},
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stdout + done.stderr
    assert not (site / "inventory.lock").exists()
