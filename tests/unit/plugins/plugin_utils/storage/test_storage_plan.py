"""Tests of exports and mounts from the inventory."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.busbar.cluster.plugins.plugin_utils.preflight.storage import (
    home_problems,
    site_storage_problems,
)
from ansible_collections.busbar.cluster.plugins.plugin_utils.storage.plan import (
    fold_clients,
    nfs_mounts_from_exports,
)


def site(**of_server: object) -> dict[str, dict[str, Any]]:
    server = {"ansible_host": "10.0.0.10", "nfs_server_exports": [{"path": "/shared"}], **of_server}
    return {"ctl": server, "gpu1": {"ansible_host": "10.0.0.11"}, "gpu2": {}}


@pytest.mark.parametrize(
    ("variables", "host", "mounts"),
    [
        (site(), "gpu1", [{"src": "10.0.0.10:/shared", "path": "/shared"}]),
        (site(hosts_address="fd00::1"), "gpu1", [{"src": "[fd00::1]:/shared", "path": "/shared"}]),
        (site(nfs_server_exports=[{"path": "/a", "mount": False}]), "gpu1", []),
        (site(), "ctl", []),
        (site(nfs_server_exports=None), "gpu1", []),
    ],
)
def test_exports_become_mounts(variables: dict[str, Any], host: str, mounts: list[dict[str, str]]) -> None:
    assert nfs_mounts_from_exports(["ctl"], variables, host) == mounts
    assert nfs_mounts_from_exports([], variables, host) == []


@pytest.mark.parametrize(
    ("addresses", "networks", "clients"),
    [
        (["10.0.0.1", "10.0.0.2"], [], ["10.0.0.1", "10.0.0.2"]),
        (["10.0.0.1", "10.0.0.2"], ["10.0.0.0/24"], ["10.0.0.0/24"]),
        (["10.0.0.1", "192.168.1.5", "gpu7"], ["10.0.0.0/24"], ["10.0.0.0/24", "192.168.1.5", "gpu7"]),
        (["fd00::1", "10.0.0.1"], ["fd00::/64"], ["fd00::/64", "10.0.0.1"]),
        (["10.0.0.1", "10.0.0.1"], [], ["10.0.0.1"]),
    ],
)
def test_only_declared_networks_are_used(addresses: list[str], networks: list[str], clients: list[str]) -> None:
    assert fold_clients(addresses, networks) == clients


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, []),
        (
            {"ctl": {"nfs_server_exports": []}},
            ["ctl nfs_server_exports", "gpu1 nfs_client_mounts", "gpu2 nfs_client_mounts"],
        ),
        ({"ctl": {"cluster_networks": ["10.0.0.0/33"]}}, ["ctl cluster_networks[10.0.0.0/33]"]),
        ({"gpu1": {"nfs_client_mounts": [{"src": "10.0.0.10:/x", "path": "/x"}]}}, ["gpu1 nfs_client_mounts[/x].src"]),
        ({"gpu1": {"nfs_client_mounts": [{"src": "gpu2:/x", "path": "/x"}]}}, ["gpu1 nfs_client_mounts[/x].src"]),
        ({"gpu1": {"storage_backend": "bond"}}, ["gpu1 storage_backend"]),
        (
            {"gpu1": {"storage_mounts_entries": [{"type": "nfs", "src": "filer:/x", "path": "/shared"}]}},
            ["gpu1 nfs_client_mounts[/shared]"],
        ),
        (
            {"ctl": {"storage_mounts_entries": [{"type": "nfs", "src": "filer:/x", "path": "/shared/x"}]}},
            ["ctl storage_mounts_entries[/shared/x]"],
        ),
    ],
)
def test_problems_of_a_site(changes: dict[str, dict[str, Any]], expected: list[str]) -> None:
    variables = site()
    for host, values in changes.items():
        variables[host] |= values
    found = site_storage_problems(["ctl", "gpu1", "gpu2"], ["ctl"], ["gpu1", "gpu2"], variables)
    assert [f"{problem['hosts'][0]} {problem['key']}" for problem in found] == expected


HOMES = {"users_home_base": "/shared/home"}
FILER = {"storage_mounts_entries": [{"type": "nfs", "src": "filer:/vol", "path": "/shared"}]}


@pytest.mark.parametrize(
    ("values", "users", "apart"),
    [
        (dict.fromkeys(("login", "gpu1", "gpu2"), HOMES), True, ["login"]),
        (dict.fromkeys(("login", "gpu1", "gpu2"), HOMES), False, ["login"]),
        ({"login": HOMES | FILER, "gpu1": HOMES, "gpu2": HOMES}, True, []),
        ({}, True, ["login", "gpu1", "gpu2"]),
        ({}, False, []),
        ({key: {"users_create_home": True} for key in ("login", "gpu1", "gpu2")}, True, []),
        (dict.fromkeys(("login", "gpu1", "gpu2"), HOMES | {"users_create_home": False}), True, []),
        (dict.fromkeys(("login", "gpu1", "gpu2"), HOMES | {"nfs_client_mounts": []}), True, ["login", "gpu1", "gpu2"]),
    ],
    ids=["one mounts nothing", "no users yet", "a filer", "the default", "no users", "local", "elsewhere", "no mount"],
)
def test_homes_without_shared_storage_are_reported(
    values: dict[str, dict[str, Any]], apart: list[str], *, users: bool
) -> None:
    variables = {"login": {}, **site()}
    variables = {host: {**own, **values.get(host, {})} for host, own in variables.items()}
    hosts = ["login", "gpu1", "gpu2"]
    found = home_problems(hosts, ["ctl"], ["gpu1", "gpu2"], variables, has_users=users)
    assert [(problem["hosts"], problem["key"]) for problem in found] == ([(apart, "users_home_base")] if apart else [])
    assert home_problems(["gpu1"], [], [], variables, has_users=True) == [], "a host alone shares its homes with itself"


def test_site_without_storage_has_no_problems() -> None:
    assert site_storage_problems(["ctl", "gpu1"], [], [], {"ctl": {}, "gpu1": {}}) == []
