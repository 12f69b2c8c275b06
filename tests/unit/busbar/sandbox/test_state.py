"""Tests of the names, addresses and state file of a sandbox."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from busbar.errors import UsageError
from busbar.sandbox import state
from busbar.sandbox.state import Sandbox, inventory_of, load, locked, sandbox_path

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "sandboxes"
    monkeypatch.setattr(state, "sandbox_root", lambda: folder)
    return folder


def test_nodes_and_addresses() -> None:
    sandbox = Sandbox("demo", compute=3, subnet="10.209.7")
    assert sandbox.nodes == ["ctl", "login", "gpu1", "gpu2", "gpu3"]
    assert [sandbox.address(node) for node in sandbox.nodes] == [f"10.209.7.{n}" for n in (10, 11, 21, 22, 23)]
    assert sandbox.container("gpu3") == "busbar-demo-gpu3"


def test_unknown_node_is_refused_with_the_known_ones() -> None:
    with pytest.raises(UsageError, match=r"no node 'gpu9' \(nodes: ctl, login, gpu1, gpu2"):
        Sandbox("demo").container("gpu9")


@pytest.mark.parametrize("name", ["", "A", "-x", "x-", "a/b", "../x", "x" * 33, "a b"])
def test_names_that_are_invalid_host_names_are_refused(name: str) -> None:
    with pytest.raises(UsageError, match="sandbox name"):
        sandbox_path(name)


def test_state_is_saved_and_loaded() -> None:
    sandbox = Sandbox(
        "demo", compute=4, gpus=1, subnet="10.209.9", faults=[{"kind": "pull", "node": "gpu1", "detail": ""}]
    )
    sandbox.save()
    assert load("demo") == sandbox
    assert inventory_of("demo") == sandbox.path / "inventory"


def test_keys_of_earlier_versions_are_ignored() -> None:
    sandbox = Sandbox("demo")
    sandbox.save()
    path = sandbox.path / "sandbox.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"storage": "bind", "databases": 1}), encoding="utf-8")
    assert load("demo") == sandbox


@pytest.mark.parametrize("text", ["", "{", "[]", '{"name": "demo", "colour": 3}'])
def test_damaged_state_is_reported_with_the_remedy(text: str) -> None:
    sandbox = Sandbox("demo")
    sandbox.save()
    (sandbox.path / "sandbox.json").write_text(text, encoding="utf-8")
    with pytest.raises(UsageError, match="busbar sandbox down --name demo"):
        load("demo")


def test_missing_sandbox_is_reported_with_the_command_that_creates_it() -> None:
    with pytest.raises(UsageError, match="busbar sandbox up --name demo"):
        load("demo")


def test_second_command_on_a_sandbox_is_refused(root: Path) -> None:
    with locked("demo"), pytest.raises(UsageError, match="another busbar command"), locked("demo"):
        pass
    with locked("demo"):
        pass
    assert not root.exists()
