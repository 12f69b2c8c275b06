"""Variables of many hosts: those that Ansible has, read with less work."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from ansible import constants
from ansible.inventory.manager import InventoryManager
from ansible.parsing.dataloader import DataLoader
from ansible.plugins.loader import init_plugin_loader
from ansible.template import trust_as_template
from ansible.vars.hostvars import HostVars
from ansible.vars.manager import VariableManager
from ansible_collections.busbar.cluster.plugins.plugin_utils import host_variables
from ansible_collections.busbar.cluster.plugins.plugin_utils.host_variables import HostVariables

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

INVENTORY: dict[str, Any] = {
    "all": {
        "vars": {"site": "lab", "port": 9100, "managed": True, "named": "{{ inventory_hostname }}.{{ site }}"},
        "hosts": {"ctl": {"ansible_host": "10.0.0.1"}},
        "children": {
            "gpu": {
                "vars": {"hardware": "dgx_h100", "site": "hall", "features": ["a", "b"], "params": {"Weight": 3}},
                "hosts": {f"gpu{i}": {"ansible_host": f"10.0.1.{i}"} for i in range(1, 7)},
            },
            "odd": {"vars": {"hardware": "l40s", "port": 1}, "hosts": {"gpu1": None, "gpu3": {"site": "own"}}},
        },
    }
}


@pytest.fixture(autouse=True)
def _as_in_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    init_plugin_loader()
    monkeypatch.setattr(constants, "INJECT_FACTS_AS_VARS", False)


@pytest.fixture
def hostvars(tmp_path: Path) -> Callable[..., HostVars]:
    """The variables of the inventory, of files beside it, of tasks, and of the command line."""

    def make(files: Mapping[str, object] | None = None, extra: Mapping[str, object] | None = None) -> HostVars:
        for path, content in {"hosts.json": INVENTORY, **(files or {})}.items():
            (tmp_path / path).parent.mkdir(exist_ok=True)
            (tmp_path / path).write_text(json.dumps(content), encoding="utf-8")
        loader = DataLoader()
        loader.set_basedir(str(tmp_path))
        inventory = InventoryManager(loader, [str(tmp_path / "hosts.json")])
        manager = VariableManager(loader, inventory)
        manager._extra_vars = dict(extra or {})  # noqa: SLF001 - what --extra-vars sets
        return HostVars(inventory, manager, loader)

    return make


def told(variables: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """All values of all hosts."""
    hosts = list(variables)
    keys = {key for host in hosts for key in variables[host]} | {"not_there"}
    return {host: {key: variables[host].get(key, "missing") for key in keys} for host in hosts}


def test_each_value_is_ansibles(hostvars: Callable[..., HostVars]) -> None:
    files = {
        "group_vars/all.yml": {"port": 9200, "from_file": "everywhere"},
        "group_vars/odd.yml": {"from_file": "{{ hardware }}", "managed": False},
        "host_vars/gpu2.yml": {"from_file": "of gpu2", "ansible_host": "10.9.9.2"},
    }
    known = hostvars(files, {"features": ["x"], "not_from_hosts": 1})
    known._variable_manager.set_host_variable("gpu4", "included", {"a": [trust_as_template("{{ site }}")]})  # noqa: SLF001
    known._variable_manager.set_nonpersistent_facts("gpu5", {"site": "set", "features": []})  # noqa: SLF001
    known._variable_manager.set_host_facts("gpu6", {"ansible_machine": "arm64", "_ansible_facts_gathered": True})  # noqa: SLF001
    expected = told(known)
    assert told(HostVariables(known)) == expected
    assert expected["gpu2"]["ansible_host"] == "10.9.9.2"
    assert expected["gpu3"]["named"] == "gpu3.own"
    assert expected["gpu4"]["included"] == {"a": ["hall"]}
    assert expected["gpu5"]["site"] == "set"
    assert expected["gpu6"]["ansible_facts"]["machine"] == "arm64"
    assert expected["gpu6"]["features"] == ["x"]


def test_set_for_the_run_wins_over_set_for_the_host(hostvars: Callable[..., HostVars]) -> None:
    known = hostvars(extra={"ansible_host": "192.0.2.1"})
    read = HostVariables(known)
    assert {read[name]["ansible_host"] for name in read} == {"192.0.2.1"}


def test_ansible_is_asked_per_kind_not_per_host(
    hostvars: Callable[..., HostVars], monkeypatch: pytest.MonkeyPatch
) -> None:
    known = hostvars()
    asked: list[object] = []
    ansibles = VariableManager.get_vars

    def counted(self: VariableManager, **given: object) -> object:
        asked.append(given)
        return ansibles(self, **given)

    monkeypatch.setattr(VariableManager, "get_vars", counted)
    read = HostVariables(known)
    assert [read[name].get("hardware") for name in ("gpu2", "gpu4", "gpu5", "gpu6")] == ["dgx_h100"] * 4
    assert len(asked) == 3  # for the first, and for the second with what it shares
    assert [read[name].get("features") for name in ("gpu2", "gpu4", "gpu5", "gpu6")] == [["a", "b"]] * 4
    assert len(asked) == 3


def test_a_list_that_was_given_is_not_the_inventorys(hostvars: Callable[..., HostVars]) -> None:
    read = HostVariables(hostvars())
    for name in ("gpu2", "gpu4", "gpu5"):
        read[name]["features"].append("c")
    assert read["gpu6"]["features"] == ["a", "b"]


@pytest.mark.parametrize(("name", "value"), [("DEFAULT_HASH_BEHAVIOUR", "merge"), ("INJECT_FACTS_AS_VARS", True)])
def test_where_ansible_is_set_up_otherwise_it_is_asked(
    hostvars: Callable[..., HostVars], monkeypatch: pytest.MonkeyPatch, name: str, value: object
) -> None:
    monkeypatch.setattr(constants, name, value)
    known = hostvars({"host_vars/gpu2.yml": {"params": {"Other": 1}}})
    read = HostVariables(known)
    assert {host: read[host]["inventory_hostname"] for host in read} == {host: host for host in known}
    assert read["gpu2"]["params"] == known["gpu2"]["params"]


def test_where_the_answers_differ_ansibles_count(
    hostvars: Callable[..., HostVars], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host_variables._Sources, "of", lambda *_: {"site": "wrong"})  # noqa: SLF001
    known = hostvars()
    read = HostVariables(known)
    assert {host: read[host]["site"] for host in read} == {host: known[host]["site"] for host in known}


def test_an_unknown_host_is_undefined_as_in_ansible(hostvars: Callable[..., HostVars]) -> None:
    known = hostvars()
    read = HostVariables(known)
    with pytest.raises(ReferenceError):  # what is undefined is so in a template
        read["nobody"]
    assert "nobody" not in read
    assert len(read) == len(known)
