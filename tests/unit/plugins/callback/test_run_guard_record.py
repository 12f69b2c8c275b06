"""The record of the last full run is gone before anything changes the hosts, and stays where nothing does."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest
from ansible import context
from ansible.module_utils.common.collections import ImmutableDict
from ansible_collections.busbar.cluster.plugins.callback.run_guard import CallbackModule
from ansible_collections.busbar.cluster.plugins.plugin_utils.last_run import record_of
from ansible_collections.busbar.cluster.plugins.plugin_utils.run_lock import OWN_PLAYBOOKS

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("playbook", "check", "stays"),
    [
        ("site.yml", False, False),
        ("base.yml", False, False),
        ("add_nodes.yml", False, False),
        ("rotate_secrets.yml", False, False),
        ("site.yml", True, True),
        ("unchanged.yml", False, True),
        ("put_into_service.yml", False, True),
        ("validate.yml", False, True),
        ("preflight.yml", False, True),
    ],
)
def test_a_playbook_that_changes_hosts_begins_without_the_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, playbook: str, *, check: bool, stays: bool
) -> None:
    inventory = tmp_path / "inventory"
    inventory.mkdir()
    (inventory / "hosts.yml").write_text("all: {}\n")
    folder = record_of(inventory)
    folder.mkdir(parents=True)
    (folder / "record.json").write_text("{}")
    monkeypatch.setattr("atexit.register", lambda _: None)
    given = ImmutableDict({"inventory": [str(inventory)], "check": check})
    monkeypatch.setattr(context, "CLIARGS", given)
    CallbackModule().v2_playbook_on_start(SimpleNamespace(_file_name=str(OWN_PLAYBOOKS / playbook)))
    assert folder.exists() == stays
