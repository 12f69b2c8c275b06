"""Tests of the names, addresses and state file of virtual machines."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from busbar.errors import UsageError
from busbar.sandbox import state as sandbox_state
from vm_pair.state import Group, load

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(sandbox_state, "sandbox_root", lambda: tmp_path)
    return tmp_path


def test_state_is_saved_and_loaded() -> None:
    group = Group("demo", "tcg", {"nfs1": 2201, "client1": 2202})
    group.save()
    assert load("demo") == group


def test_unknown_machine_is_refused_with_the_known_ones() -> None:
    with pytest.raises(UsageError, match=r"no machine 'gpu1' \(available: nfs1, client1"):
        Group("demo").machine("gpu1")


def test_missing_group_is_reported_with_the_command_that_creates_it() -> None:
    with pytest.raises(UsageError, match="tests/vm/machines up --name demo"):
        load("demo")


@pytest.mark.parametrize("text", ["", "{", "[]", '{"name": "demo", "colour": 3}'])
def test_damaged_state_is_reported_with_the_remedy(text: str, root: Path) -> None:
    (root / "demo").mkdir()
    (root / "demo" / "machines.json").write_text(text, encoding="utf-8")
    with pytest.raises(UsageError, match="tests/vm/machines down --name demo"):
        load("demo")
